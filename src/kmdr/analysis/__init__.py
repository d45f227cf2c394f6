"""Rows of a folder, quantities in them, and statistics."""
