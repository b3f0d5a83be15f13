"""Files of other projects are unchanged: each has the digest that its page names."""

from __future__ import annotations

import re
from pathlib import Path

from microsub.base.digests import sha256_hex

AXE = Path(__file__).parents[1] / "browser" / "axe"


def test_axe_is_what_its_makers_published() -> None:
    """The digest in the README is that of the file."""
    (named,) = re.findall(r"SHA-256: `([0-9a-f]{64})`", (AXE / "README.md").read_text("utf-8"))
    assert sha256_hex((AXE / "axe.min.js").read_bytes()) == named
