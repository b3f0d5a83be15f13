"""backend.json: the file, its versions, and its synchronisation with the stores."""
