"""mypaper: say here which paper it is."""
