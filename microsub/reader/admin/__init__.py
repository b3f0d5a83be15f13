"""Pages on which admins see how the server fares."""
