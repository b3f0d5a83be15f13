"""User settings: lists of feeds, output feeds, mutes, sources, webmentions, devices."""
