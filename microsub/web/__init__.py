"""HTTP for all features: bodies, parameters, replies, headers."""
