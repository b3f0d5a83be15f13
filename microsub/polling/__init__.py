"""When and how feeds are polled: the plan, one poll, moves, the worker."""
