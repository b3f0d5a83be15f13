"""A multi-user Microsub server on Redis."""

__version__ = "0.1.0"
