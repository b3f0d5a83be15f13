"""backend.json: the file, its versions, and its synchronisation with the stores."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.backend_file.apply import Applier
    from microsub.backend_file.store import Applied, AppliedFile
    from microsub.backend_file.sync import Configuration, first
else:
    __getattr__ = lazy_exports(__name__, __file__)
