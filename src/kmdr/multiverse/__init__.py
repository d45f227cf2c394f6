"""The choices that a paper leaves open, and the runs of all their combinations."""
