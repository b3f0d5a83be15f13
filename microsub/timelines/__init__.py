"""What a reader sees: channels, follows, pages, read state, mutes and blocks, retention."""
