"""`microsub demo`: the running product without internet, as the README describes it."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path

from tests.support.process import installation
from tests.support.waiting import wait_until

README = Path(__file__).parents[2] / "README.md"


async def test_the_demo_shows_what_the_readme_says(tmp_path: Path) -> None:
    """It prints the lines of the README's transcript, its `curl` command works, and new posts keep arriving."""
    async with installation(tmp_path, {}) as installed:
        process = await installed.start("demo", "--publisher-port", "0")
        out = tmp_path / "0.out"
        await wait_until(lambda: process.returncode is not None or "try " in out.read_text())
        shown = out.read_text()
        transcript = re.search(r"```text\n(Microsub server on .*?)```", README.read_text(), re.DOTALL)
        assert transcript
        assert [line[:11] for line in shown.splitlines()] == [line[:11] for line in transcript[1].splitlines()]

        line = re.search(r"try +(curl .*)", shown)
        assert line

        async def unread() -> int:
            curl = await asyncio.create_subprocess_exec(*shlex.split(line[1]), stdout=asyncio.subprocess.PIPE)
            reply, _ = await curl.communicate()
            return sum(channel["unread"] for channel in json.loads(reply)["channels"])

        async def more_than(count: int) -> bool:
            return await unread() > count

        await wait_until(lambda: more_than(20))
        before = await unread()
        await wait_until(lambda: more_than(before))
