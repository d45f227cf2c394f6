"""What to run: Hydra composition, studies, protocols and experiments."""
