"""Polling of feeds: the plan, one poll, moves, the worker."""
