"""Work in threads that waits until a test releases it, and the number of concurrent calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class HeldWork:
    """Replaces `work` and returns its result. `calls` and `together` are the counts of all and of concurrent calls."""

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
