"""The atlas: which method keeps the clustering, on which data, at which r, over all datasets of a collection."""
