"""Processes that die at random moments, and what must be true when the dust has settled."""
