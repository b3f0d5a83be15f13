"""Where the socket of an embedded Redis is: in the data folder, or in a folder of its own."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from urllib.parse import quote

from microsub.errors import ConfigError
from microsub.redis.embedded.datafolder import Record

SOCKET_PATH_LIMIT = 107
"""Bytes that fit into `sun_path` besides its final NUL (unix(7), Linux)."""

_TEMPORARY = "microsub-"


def socket_url(path: str) -> str:
    """The URL of a unix socket."""
    return f"unix://{quote(path)}"


def socket_path(data_dir: Path, before: Record | None) -> str:
    """Where a new server listens: in the folder where that fits, else in a private folder with a short name.

    That of the last time if possible, so that clients find it again.
    """
    path = str(data_dir / "redis.sock")
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
        return path
    if before is not None and _is_made_again(Path(before.socket).parent):
        return before.socket
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes it ours alone
        if len(os.fsencode(parent)) <= SOCKET_PATH_LIMIT - 32:
            return os.path.join(tempfile.mkdtemp(prefix=_TEMPORARY, dir=parent), "redis.sock")
    raise ConfigError(file="TMPDIR", path="", found=tempfile.gettempdir(), expected="a folder with a short path")


def _is_made_again(folder: Path) -> bool:
    """Whether the private folder of a server that has ended could be made again; False when anybody has one there."""
    if not folder.name.startswith(_TEMPORARY):
        return False
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        return False
    return True


def remove_socket(record: Record | None, data_dir: Path) -> None:
    """Clear away what a server that has ended left, with its temporary folder if it had one.

    A folder that was copied brings the record of the original's socket along: one that is in use stays.
    """
    if record is None:
        return
    path = Path(record.socket)
    if path.parent != data_dir and _is_listening(record.socket):
        return
    path.unlink(missing_ok=True)
    if path.parent != data_dir and path.parent.name.startswith(_TEMPORARY):
        try:
            path.parent.rmdir()
        except OSError:
            return


def _is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True
