"""Stands before the `rich` that a tool brings along and the product doesn't have.

With it structlog takes a quarter longer to import in each process that the tests start, and half a second to show a
traceback.
"""

raise ImportError("rich is no part of the product", name="rich")
