"""Management of channels: names, order, follows, filters and retention."""
