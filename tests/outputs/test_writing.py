"""Writing of documents in threads, at most one per user."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from microsub.formats.documents import FORMATS
from microsub.outputs import contents
from microsub.outputs.api import documents
from tests.outputs.conftest import Publisher
from tests.support.threads import HeldWork


async def test_documents_of_one_user_are_written_one_at_a_time(
    alice: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise 100 requests would leave no thread for readers' pages; the same document isn't written twice."""
    addresses = await alice.make(channel="home")
    held = HeldWork(lambda write, document: write(document))
    formats = {form: replace(one, write=partial(held, one.write)) for form, one in FORMATS.items()}
    monkeypatch.setattr(documents, "FORMATS", formats)
    asked = [asyncio.create_task(alice.get(address)) for address in [*addresses.values()] * 4]
    await asyncio.to_thread(held.begun.wait, 30)
    await alice.reader.timeline("home")
    held.go_on.set()
    assert [reply.status_code for reply in await asyncio.gather(*asked)] == [200] * len(asked)
    assert (held.calls, held.together) == (len(addresses), 1)


async def test_posts_beyond_the_limit_have_title_and_excerpt(alice: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers would list their addresses as titles, and podcast apps would miss their files."""
    monkeypatch.setattr(contents, "MOST_BYTES", 20_000)
    monkeypatch.setattr(contents, "_MOST_READ", 20_000)
    await alice.publish("fourth", "third", "second", "first", text="word " * 1_600)
    addresses = await alice.make(channel="home")
    items = {item["url"].rpartition("/")[2]: item for item in (await alice.get(addresses["json"])).json()["items"]}
    whole, shortened, listed = (items[name] for name in ("fourth", "third", "second"))
    assert len(whole["content_html"]) > 7_000
    assert 400 < len(shortened["content_html"]) < 600
    assert shortened["content_html"].endswith("word…")
    assert (shortened["title"], shortened["authors"][0]["name"]) == ("third", "Ann")
    assert listed["title"] == "https://blog.example/second"
