"""From a page or a word to feeds: links, well-known sites, search."""
