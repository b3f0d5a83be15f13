"""Identity: sign-in, sessions, tokens, and the IndieAuth provider."""
