"""Refreshing 200 feeds, one on each of 200 loopback addresses: our worker compared with lemon24's `reader`."""
