"""Processes that die at random moments, and the conditions that must hold afterwards."""
