"""Pages about the server's health, for admins."""
