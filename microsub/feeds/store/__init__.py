"""What Redis keeps of feeds."""
