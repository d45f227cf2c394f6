"""What every other package may use: errors, files, text, paths, threads, seeds, timing, plugins, signals."""
