"""Shared by all packages: errors, files, text, paths, threads, seeds, timing, plugins, signals."""
