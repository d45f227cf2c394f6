"""The papers: a folder each, which holds all there is of it."""
