"""What apps that keep up with a user go by: the order in which items arrived, and the stream of what changes."""
