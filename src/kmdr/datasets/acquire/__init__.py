"""Find and download the files of datasets, and read archives."""
