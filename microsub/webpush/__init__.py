"""Web push: devices that show notifications of new posts, the messages to them, and their encryption."""
