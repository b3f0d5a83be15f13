"""Who somebody is: sign-in, sessions, tokens, and the IndieAuth provider."""
