"""mypaper: name the paper here."""
