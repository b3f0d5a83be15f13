"""One demo at a time works on a folder: the file that it writes there is for its own addresses."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from microsub.errors import MicrosubError

_LOCK = "demo.lock"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock `folder`, which exists, within the block; the lock ends with the process. Changes nothing else in it.

    Raises MicrosubError where another demo holds it, and OSError.
    """
    with open(folder / _LOCK, "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read(20).strip() or "unknown"
            raise MicrosubError(
                f"the demo in {folder.resolve()} runs already (pid {pid}). Stop that one, or choose another folder "
                "with --data-dir or MICROSUB_DATA_DIR"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
