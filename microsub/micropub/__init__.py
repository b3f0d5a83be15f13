"""Micropub: posts that scripts and apps send into a channel of a user (https://www.w3.org/TR/micropub/)."""
