"""Results that others submit: packed with a card, accepted by recomputation, and listed with their status."""

from kmdr.submissions.listing import SUBMITTED, UNCHECKED, Submission, submissions, submissions_digest

__all__ = ["SUBMITTED", "UNCHECKED", "Submission", "submissions", "submissions_digest"]
