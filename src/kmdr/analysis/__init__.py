"""What the rows of a folder say: rows, quantities, and statistics of them."""
