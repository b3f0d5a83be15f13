"""The log line of an internal error: where it happened, and no input from people."""

from __future__ import annotations

import pytest

from microsub.base.logs import set_up_logs
from microsub.identity.local_sign_in import LocalSignIn
from microsub.redis.protocol import Redis
from tests.support.readers import instance
from tests.support.visitor import Visitor

ADDRESS = "https://reader.example"
SECRET = "a password that nobody may see"


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_traceback_shows_no_values(
    real_redis: Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """Local variables hold passwords and codes, so no installed package may print them in tracebacks."""

    async def failing(_self: LocalSignIn, _who: str, password: str, *_: object) -> None:
        kept = password
        raise RuntimeError(f"a bug, {len(kept)}")

    monkeypatch.setattr(LocalSignIn, "by_password", failing)
    set_up_logs(form, "info")
    async with instance(real_redis, base_url=ADDRESS) as server:
        visitor = Visitor(server.app, ADDRESS)
        page = await visitor.get("/sign-in")
        shown = await visitor.submit(page, "/sign-in/local", who="ann", password=SECRET)
        await visitor.aclose()
    assert shown.status == 500
    told = capsys.readouterr().err
    assert "a bug, 30" in told
    assert "by_password" in told
    assert SECRET not in told
    assert SECRET not in shown.response.text
