"""Code that knows no feature: URLs, rate limits, caches with single flight, periodic jobs, HTTP."""
