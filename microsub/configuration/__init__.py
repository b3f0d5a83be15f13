"""backend.json: what it may say, and how it and the stores are kept in step."""
