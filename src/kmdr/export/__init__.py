"""Results and datasets for others: research objects that repositories and catalogues read."""
