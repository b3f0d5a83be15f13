"""Web push: devices on which users hear of new posts, the messages to them, and their encryption."""
