"""Results that others submit: packed with a card, accepted by recomputation, and listed with their status."""

from kmdr.submissions.listing import Submission, submissions

__all__ = ["Submission", "submissions"]
