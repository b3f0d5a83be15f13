"""Answers: replies, likes, reposts and bookmarks on the reader's own site."""
