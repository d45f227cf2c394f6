"""A folder of results: how its files are found, read, written and removed."""
