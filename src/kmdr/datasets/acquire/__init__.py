"""Finding and downloading the files of registered datasets."""
