"""The endpoints of the IndieAuth provider, and the credentials of a request."""
