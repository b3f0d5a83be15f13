"""What tests share: waiting on conditions, servers, invented values, the check of what they leave in Redis."""
