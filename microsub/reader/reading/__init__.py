"""Reading: channels, timelines, single posts, and actions on posts."""
