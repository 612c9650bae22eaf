"""A clone checked out commit by commit, with its index: each is brought up to date, as a session does it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

from core.index.builder import open_builder
from core.index.database import connect_for_reading


class IndexedTree:
    """Files of `clone` below `directory`, and their index beside them."""

    def __init__(self, clone: Path, directory: Path) -> None:
        self._clone = clone
        self.root = directory / "tree"
        self._database = directory / "index.sqlite"
        self._staged = directory / "staged"
        self.root.mkdir(parents=True, exist_ok=True)

    def check_out(self, commit: str) -> sqlite3.Connection:
        """Bring files and index to a commit, and open the index. Raises `CalledProcessError`."""
        environment = {**os.environ, "GIT_INDEX_FILE": str(self._staged), "GIT_DIR": str(self._clone)}
        command = ["git", f"--work-tree={self.root}", "read-tree", "-u", "--reset", commit]
        subprocess.run(command, check=True, env=environment, cwd=self.root, capture_output=True)
        builder = open_builder(self.root, self._database, lambda status: None)
        try:
            builder.sweep()
            builder.finish()
        finally:
            builder.close()
        return connect_for_reading(self._database)

    def read_lines(self, path: str) -> list[str]:
        return (self.root / path).read_text(encoding="utf-8", errors="replace").split("\n")
