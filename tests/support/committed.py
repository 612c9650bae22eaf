"""A project that is a git repository with one commit, and trusted."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.trust import trust


def committed(root: Path, files: Mapping[str, str]) -> Path:
    """The project, made at `root`, with these texts by path."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    named = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(root), *named, "commit", "-qm", "first"], check=True)
    trust(root)
    return root
