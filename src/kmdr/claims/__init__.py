"""Papers, their tables, figures and claims, and the verdicts on the claims."""
