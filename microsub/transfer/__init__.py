"""Users' imports and exports: lists of feeds, whole accounts, files from other readers.

FeedLists       OPML import and export          UserExport, UserImport    all data of a user, as JSON lines
OtherReaders    files from other readers        ImportReport              an import's result, as text and JSON
ListImports     imports of lists in the background
api             /opml, for apps with a token
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.transfer.api import FeedListEndpoint
    from microsub.transfer.ekster.imports import Importing, OldFile, read_old
    from microsub.transfer.ekster.store import open_old
    from microsub.transfer.feed_lists import FeedLists, ListReport, adapted, begun_by
    from microsub.transfer.list_imports import ListImport, ListImports
    from microsub.transfer.other_readers import BroughtReport, OtherReaders
    from microsub.transfer.outlines import MOST_BYTES
    from microsub.transfer.reports import ChannelImport, ImportReport, Skipped
    from microsub.transfer.settings import read_settings
    from microsub.transfer.user_export import UserExport
    from microsub.transfer.user_import import UserImport
else:
    __getattr__ = lazy_exports(__name__, __file__)
