"""What a reader sees: channels, follows, pages, read state, mutes and blocks, retention.

The functions on what is saved are for other features too.
"""

from microsub.timelines.saved import count_saved, save, save_posts, saved_among, unsave

__all__ = ["count_saved", "save", "save_posts", "saved_among", "unsave"]
