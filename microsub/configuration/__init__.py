"""backend.json: what it may say, and how edits reach the stores and changes made through the API reach the file."""
