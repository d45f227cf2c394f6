"""What to run: Hydra composition, studies, protocols, and the task as a value."""
