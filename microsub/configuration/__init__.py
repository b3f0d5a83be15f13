"""Settings that backend.json declares."""
