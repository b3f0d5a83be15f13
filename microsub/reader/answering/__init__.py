"""Answers: replies, likes, reposts and bookmarks on the user's own site."""
