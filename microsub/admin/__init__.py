"""Periodic jobs of a worker other than polling: the sweep, repair of follows, figures."""
