"""Parses foreign documents in processes with limits of processor time and memory."""
