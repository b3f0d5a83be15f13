"""What Redis keeps of posts."""
