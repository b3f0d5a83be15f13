"""HTML: what of it is kept, how deep it nests, and its text."""
