"""The composition root: settings → clients → stores → services and processes.

Everything is built here and passed as arguments. Each `open_…` is a context manager that closes, in reverse order, what
it opened. `worker` and `web` build these processes, and import what they need at their top; so do `poller` and
`commands` for single commands. `stores`, `backend` and `jobs` are for all commands: they use features by way of their
faces, which load a module when it is needed.
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.server import app, backend, commands, fetching, jobs, poller, stores, web, worker
else:
    __getattr__ = lazy_exports(__name__, __file__)
