"""backend.json: its format, and its synchronisation with the stores."""
