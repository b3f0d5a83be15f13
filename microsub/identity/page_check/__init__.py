"""The check of a profile page: what it lacks for signing in and reading."""
