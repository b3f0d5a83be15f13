"""The first page of an account without follows."""
