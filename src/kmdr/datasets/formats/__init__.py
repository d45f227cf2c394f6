"""Readers of file formats, and what is found and changed in the data that they give."""
