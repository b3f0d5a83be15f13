"""Microformats: h-feed, h-entry and h-card."""
