"""Posts, each stored once: ingest, duplicates, deletion."""
