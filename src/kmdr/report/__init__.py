"""What a run found, for people: statistics, figures, tables, the HTML report."""
