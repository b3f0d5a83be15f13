"""Finding feeds and following them."""
