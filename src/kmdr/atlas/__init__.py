"""The atlas: every method on many real datasets, and the advice that follows from it."""
