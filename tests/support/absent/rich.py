"""Hides the package `rich`, which a development tool installs and the product doesn't have.

With it, importing structlog takes a quarter longer in each process that the tests start, and a traceback takes half a
second.
"""

raise ImportError("rich is no part of the product", name="rich")
