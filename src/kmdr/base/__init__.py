"""Shared by all packages.

Errors, files, paths, text, seeds, timing, threads, plugins, code identity, provenance, limits of trials, signals and
exit status.
"""
