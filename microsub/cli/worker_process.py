"""The process that `cli.beside` runs: a worker with the settings of its environment, until its parent ends."""

from __future__ import annotations

import os
import sys

from microsub.cli.running import Parts, start
from microsub.settings import read_settings

if __name__ == "__main__":
    start(read_settings(os.environ), Parts(worker="inside", parent=sys.stdin.fileno()))
