"""Users' imports and exports: lists of feeds, whole accounts, files from other readers.

FeedLists       OPML import and export          UserExport, UserImport    all data of a user, as JSON lines
OtherReaders    files from other readers        ImportReport              an import's result, as text and JSON
ListImports     imports of lists in the background
api             /opml, for apps with a token
"""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.transfer.feed_lists import FeedLists as FeedLists
    from microsub.transfer.feed_lists import ListReport as ListReport
    from microsub.transfer.feed_lists import adapted as adapted
    from microsub.transfer.list_imports import ListImport as ListImport
    from microsub.transfer.list_imports import ListImports as ListImports
    from microsub.transfer.other_readers import BroughtReport as BroughtReport
    from microsub.transfer.other_readers import OtherReaders as OtherReaders
    from microsub.transfer.outlines import MOST_BYTES as MOST_BYTES
    from microsub.transfer.reports import ChannelImport as ChannelImport
    from microsub.transfer.reports import ImportReport as ImportReport
    from microsub.transfer.reports import Skipped as Skipped
    from microsub.transfer.user_export import UserExport as UserExport
    from microsub.transfer.user_import import UserImport as UserImport

__getattr__ = lazy_exports(
    __name__,
    {
        "FeedLists": "feed_lists",
        "ListReport": "feed_lists",
        "adapted": "feed_lists",
        "ListImport": "list_imports",
        "ListImports": "list_imports",
        "BroughtReport": "other_readers",
        "OtherReaders": "other_readers",
        "MOST_BYTES": "outlines",
        "ChannelImport": "reports",
        "ImportReport": "reports",
        "Skipped": "reports",
        "UserExport": "user_export",
        "UserImport": "user_import",
    },
)
