"""The requirements, one module per subject. The docstring of a check is the title of its requirement."""
