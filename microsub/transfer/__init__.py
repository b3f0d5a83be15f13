"""What people bring along and take away: lists of feeds, all that is a user's, posts from other readers."""
