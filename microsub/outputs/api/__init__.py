"""Output feeds over HTTP: `documents` for everybody, `actions` for their users."""
