"""Periodic work of a worker besides polling: the sweep, repair of follows, figures."""
