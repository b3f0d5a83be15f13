"""Signing in with a password or a passkey of this server."""
