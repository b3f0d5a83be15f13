"""What the pages on the post store say is so: their programs run, and every public name is there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

import microsub.posts
from microsub.feeds.events import Event, Kind
from microsub.library.api import _RESOURCES, PATH
from microsub.library.post_store import EventPage, FeedPage, Post, PostPage, PostStore, Saved, open_post_store

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = (DOCS / "how-to" / "use-the-post-store.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference" / "post-store.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", HOW_TO, re.DOTALL)
PRINTED = (
    "1 True Storm {'beaufort': 10, 'from': 'NW'}\n",
    "new\nchanged: beaufort\nchanged: nothing\n",
    "".join(" ".join(f"Hour {n}" for n in range(top, top - 10, -1)) + "\n" for top in (29, 19, 9))
    + "5 posts have left\n",
    "feed_created \npost_created 1\npost_modified 1 name\n",
)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_run(number: int, redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each prints what it should, on an empty Redis."""
    exec(compile(PROGRAMS[number].replace("redis://localhost:6379/0", redis_url), "page", "exec"), {})
    assert capsys.readouterr().out == PRINTED[number]


def test_every_public_name_is_described() -> None:
    """Names, methods with their arguments, fields, kinds of events, addresses."""
    names = {*microsub.posts.__all__, *inspect.signature(open_post_store).parameters, *get_args(Kind)}
    for value in (Saved, Post, PostPage, FeedPage, EventPage, Event):
        names |= value.__dataclass_fields__.keys()
    assert {name for name in names if not re.search(rf"\b{name}\b", REFERENCE)} == set()
    methods = [name for name, _ in inspect.getmembers(PostStore, inspect.isfunction) if not name.startswith("_")]
    for name in methods:
        parameters = list(inspect.signature(getattr(PostStore, name)).parameters.values())[1:]
        text = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
        assert f"{name}({text})" in REFERENCE
    for parts in _RESOURCES:
        assert f"`{PATH}/{'/'.join(part or '<id>' for part in parts)}`" in REFERENCE
