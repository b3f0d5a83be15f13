"""Lua scripts live in files: `microsub/store/lua/<name>.lua`, each opening with what must be atomic in it, and the
catalogue of its KEYS, ARGV and reply.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from microsub.store.port import Script

FOLDER = Path(__file__).parent / "lua"


@cache
def load(name: str) -> Script:
    """The script of that name. Raises FileNotFoundError, which is a bug, when there is none."""
    return Script(name, (FOLDER / f"{name}.lua").read_text(encoding="utf-8"))
