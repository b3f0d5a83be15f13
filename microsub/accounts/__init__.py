"""Users of this server, their tokens, and their quotas."""
