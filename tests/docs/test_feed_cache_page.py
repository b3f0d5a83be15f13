"""What the pages on the feed cache say is so: their programs run, and every public name is there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import microsub.cache
from microsub.cache import CachedFeed, FeedCache
from microsub.fetch import REASONS, Fetcher, FetchRequest, FetchResult
from tests.support.feed_cache import site

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = (DOCS / "how-to" / "use-the-feed-cache.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference" / "feed-cache.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", HOW_TO, re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_run(
    number: int,
    tmp_path: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each prints the feed's title, from a web that serves one feed everywhere."""
    web = site()

    async def fetch(_self: Fetcher, request: FetchRequest) -> FetchResult:
        return await web.fetch(request)

    monkeypatch.setattr(Fetcher, "fetch", fetch)
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[number].replace("redis://localhost:6379/0", redis_url), "page", "exec"), {})
    assert "Harbour" in capsys.readouterr().out


def test_every_public_name_is_described() -> None:
    """Names, arguments, fields and reasons."""
    names = {
        *microsub.cache.__all__,
        *inspect.signature(FeedCache).parameters,
        *CachedFeed.__dataclass_fields__,
        *REASONS,
    }
    assert {name for name in names if f"{name}" not in REFERENCE} == set()
    for method in ("fetch", "fetch_many", "remove", "purge", "aclose"):
        parameters = list(inspect.signature(getattr(FeedCache, method)).parameters.values())[1:]
        text = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
        assert f"{method}({text})" in REFERENCE
