"""The invented publisher of `make demo`: blogs in every format that post every few seconds.

Read it in this order: `cast` (who writes, and what stands where at which time: pure), `documents` (a path and an
instant → bytes: pure), `publisher` (HTTP, and a backend.json that follows it all).

It uses nothing of the rest of the product, so that what it serves is checked by the product's parsers and not made by
them.
"""
