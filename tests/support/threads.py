"""Work in threads that is held until a test lets it go on, and how much of it was under way together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class HeldWork:
    """Stands for `work`, whose result it gives. `calls` and `together` are the numbers to look at."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self._change = threading.Lock()
        self._under_way = 0
        self.calls = self.together = 0
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        with self._change:
            self.calls += 1
            self._under_way += 1
            self.together = max(self.together, self._under_way)
        self.begun.set()
        assert self.go_on.wait(30)
        try:
            return self._work(*arguments)
        finally:
            with self._change:
                self._under_way -= 1
