"""Studies: what each paper's tables, figures and claims are made of. One module a paper."""
