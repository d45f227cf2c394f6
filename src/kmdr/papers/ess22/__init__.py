"""ess22: An Empirical Evaluation of k-Means Coresets (ESA 2022)."""
