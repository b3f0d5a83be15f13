"""Tending channels: their names and order, what they follow, what they take, and how long posts stay."""
