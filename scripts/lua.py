"""Check the Lua scripts by luacheck, each together with the parts that it includes.

`python scripts/lua.py` exits with 1 if there are warnings. Without luacheck it only says so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from microsub.redis.scripts import load, script_files

_GIVEN = ("--std", "lua51", "--read-globals", "KEYS", "ARGV", "redis", "cjson", "--no-max-line-length")


def main() -> int:
    """Print the warnings by file and line; the exit code."""
    program = shutil.which("luacheck")
    if program is None:
        print("The Lua scripts are not checked: install luacheck (Debian: sudo apt-get install lua-check)")
        return 0
    above: dict[str, int] = {}
    with TemporaryDirectory() as folder:
        for name, file in script_files().items():
            own = file.read_text("utf-8")
            # No script uses all functions of a part, and each may use their names for its own variables.
            parts = f"-- luacheck: push ignore 211\n{load(name).text.removesuffix(own)}-- luacheck: pop\n"
            Path(folder, f"{name}.lua").write_text(parts + own, "utf-8")
            above[name] = parts.count("\n")
        command = [program, *_GIVEN, "--ignore", "4..", "--formatter", "plain", "--", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 – our own files
    found = re.findall(r"/(\w+)\.lua:(\d+):(.*)", done.stdout)
    for name, line, rest in found:
        print(f"{script_files()[name]}:{int(line) - above[name]}:{rest}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
