"""The IndieAuth provider: what people let apps do, and what apps get."""
