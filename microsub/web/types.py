"""Media types that requests and replies share."""

FORM = "application/x-www-form-urlencoded"
