"""When and how feeds are asked: the plan, one poll, moves, the worker."""
