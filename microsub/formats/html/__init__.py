"""HTML: sanitising, nesting limits, and conversion to text."""
