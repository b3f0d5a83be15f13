"""Pure data: what travels between the layers. Nothing here does I/O."""
