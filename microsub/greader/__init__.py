"""The Google Reader API, by which native apps read: its dialect as FreshRSS and Miniflux speak it."""
