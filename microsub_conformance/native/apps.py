"""The apps whose code was read, in August to November 2026, and the files in which requirements are seen."""

from __future__ import annotations

from collections.abc import Callable

from microsub_conformance.requirement import Evidence


def _app(name: str, repository: str, folder: str) -> Callable[[str], Evidence]:
    return lambda file: Evidence(name, f"{repository}: {folder}/{file}")


def _file(name: str, repository: str, path: str) -> Evidence:
    return Evidence(name, f"{repository}: {path}")


NETNEWSWIRE = _app("NetNewsWire", "Ranchero-Software/NetNewsWire", "Modules/Account/Sources/Account/ReaderAPI")
READROPS = _app("Readrops", "readrops/Readrops", "api/src/main/java/com/readrops/api/services/greader")
CAPY = _app("Capy Reader", "jocmp/capyreader", "readerclient/src/main/java/com/jocmp/readerclient")
LIFEREA = _app("Liferea", "lwindolf/liferea", "src/node_sources")

CALLER, ENTRY = NETNEWSWIRE("ReaderAPICaller.swift"), NETNEWSWIRE("ReaderAPIEntry.swift")
DELEGATE = NETNEWSWIRE("ReaderAPIAccountDelegate.swift")
READROPS_SYNC, READROPS_CALLS = READROPS("GReaderDataSource.kt"), READROPS("GReaderService.kt")
READROPS_ITEMS, READROPS_IDS = (
    READROPS("adapters/GReaderItemsAdapter.kt"),
    READROPS("adapters/GReaderItemsIdsAdapter.kt"),
)
READROPS_FEEDS = READROPS("adapters/GReaderFeedsAdapter.kt")
READROPS_FOLDERS = READROPS("adapters/GReaderFoldersAdapter.kt")
CAPY_ITEM, CAPY_CALLS = CAPY("Item.kt"), CAPY("GoogleReader.kt")
CAPY_SYNC = _file(
    "Capy Reader",
    "jocmp/capyreader",
    "capy/src/main/java/com/jocmp/capy/accounts/reader/ReaderAccountDelegate.kt",
)
READYOU = _file(
    "ReadYou",
    "ReadYouApp/ReadYou",
    "app/src/main/java/me/ash/reader/infrastructure/rss/provider/greader/GoogleReaderAPI.kt",
)
READYOU_TYPES = _file(
    "ReadYou",
    "ReadYouApp/ReadYou",
    "app/src/main/java/me/ash/reader/infrastructure/rss/provider/greader/GoogleReaderDTO.kt",
)
FLUENT = _file("Fluent Reader", "yang991178/fluent-reader", "src/scripts/models/services/greader.ts")
RSS_GUARD = _file("RSS Guard", "martinrotter/rssguard", "src/librssguard-greader/src/greadernetwork.cpp")
NEWSBOAT = _file("Newsboat", "newsboat/newsboat", "src/freshrssapi.cpp")
OLD_NEWSBOAT = _file("Newsboat before 2.24", "newsboat/newsboat", "src/feedhqapi.cpp")
LIFEREA_CALLS, LIFEREA_ITEMS = LIFEREA("google_source.c"), LIFEREA("google_source_feed.c")
LIFEREA_FEEDS, LIFEREA_EDITS = LIFEREA("google_source_feed_list.c"), LIFEREA("google_reader_api_edit.c")
OLD_LIFEREA = _file("Liferea before 1.15", "lwindolf/liferea", "src/fl_sources/google_source_feed.c")
LIFEREA_OLD_READER = LIFEREA("theoldreader_source_feed.c")
