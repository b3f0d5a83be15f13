"""What a worker does at intervals beside polling: the sweep, repair of follows, figures."""
