"""Reading: channels, timelines, single posts, and what becomes of them."""
