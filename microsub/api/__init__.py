"""The Microsub actions (https://indieweb.org/Microsub-spec)."""
