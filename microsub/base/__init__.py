"""Code that is independent of features: URLs, rate limits, caches with single flight, periodic jobs, HTTP."""
