"""The web site of the suite: invented blogs in all formats, and the server that publishes them and logs requests."""
