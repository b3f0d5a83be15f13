"""Use cases: what a reader, an admin or the clock asks for, made of calls to the stores."""
