"""The report of a folder of results."""
