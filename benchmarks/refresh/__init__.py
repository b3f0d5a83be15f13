"""Refreshing 200 feeds, one on each of 200 loopback addresses: our worker and lemon24's reader, side by side."""
