"""Results and datasets for archives and catalogues: RO-Crate and Croissant."""
