"""Who somebody is: sign-in, sessions, tokens of other providers, and our own IndieAuth server."""
