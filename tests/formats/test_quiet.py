"""Libraries write nothing to standard error, for any document."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from microsub.formats.parse import parse
for start in ("", "<?xml version='1.0'?>", "<?xml version='1.0'>", "<?xml-stylesheet href='x'?>",
              " <?xml version='1.0'?> <?xml-stylesheet href='x'?>", "<!-- x --><?xml version='1.0'?>"):
    for root in ("<div>", "<page xmlns='urn:x'>", "<html xmlns='http://www.w3.org/1999/xhtml'>"):
        feed = parse(f"{start}{root}<p class='h-entry'>Words".encode(), "https://a.example/", "application/xhtml+xml")
        assert len(feed.entries) == 1, (start, root)
"""


def test_pages_that_look_like_xml_are_read_in_silence() -> None:
    """Otherwise Beautiful Soup would warn once per process, in the middle of the log."""
    done = subprocess.run([sys.executable, "-W", "always", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
