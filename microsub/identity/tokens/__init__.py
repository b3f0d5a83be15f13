"""Tokens of other providers, and what each user may have and ask."""
