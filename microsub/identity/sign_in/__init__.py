"""Signing in with one's own domain: profiles, codes, accounts, sessions."""
