"""Finds feeds, from a page or a search word: links, well-known sites, search."""
