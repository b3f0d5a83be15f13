"""The invented publisher of `make demo`: blogs in every format that post every few seconds.

Read in this order: `cast` (the blogs and their posts at an instant: pure), `documents` (path and instant → bytes:
pure), `publisher` (HTTP, and a backend.json that follows all blogs).

It uses no other part of the product, so the product's parsers check its documents independently.
"""
