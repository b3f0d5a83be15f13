"""What Redis keeps of channels and timelines."""
