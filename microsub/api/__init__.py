"""What other programs talk to: the Microsub endpoint. Turns requests into typed calls of services, and back."""
