"""The post store for programs: as a Python library and over HTTP."""
