"""What a user sets beside channels: lists of feeds, output feeds, mutes, sources, webmentions."""
