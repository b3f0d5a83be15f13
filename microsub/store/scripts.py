"""Lua scripts live in files: `microsub/store/lua/<name>.lua`, each opening with what must be atomic in it, and the
catalogue of its KEYS, ARGV and reply.

Functions that several scripts share lie in `lua/parts/`; a line `-- include: <part>` puts that file's text before the
script's own. They are local functions, so a script remains one self-contained text for Redis.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from microsub.store.port import Script

FOLDER = Path(__file__).parent / "lua"


@cache
def load(name: str) -> Script:
    """The script of that name. Raises FileNotFoundError, which is a bug, when there is none."""
    text = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    parts = re.findall(r"^-- include: (\w+)$", text, re.MULTILINE)
    return Script(
        name, "\n".join([*((FOLDER / "parts" / f"{part}.lua").read_text(encoding="utf-8") for part in parts), text])
    )
