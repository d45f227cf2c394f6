"""Read data files of all formats, and profile and treat their content."""
