"""What Redis keeps of accounts, sessions, credentials and grants."""
