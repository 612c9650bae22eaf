"""A project that is a git repository with one commit, and trusted."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.trust import trust

OWN = Path(__file__).parents[2]


def committed(root: Path, files: Mapping[str, str]) -> Path:
    """The project, made at `root`, with these texts by path."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(root), *identity, "commit", "-qm", "first"], check=True)
    trust(root)
    return root


def commit_own_sources(root: Path, files: Mapping[str, str] | None = None) -> Path:
    """This program's own sources and documents as a project of their own, with more `files`."""
    paths = [path for part in ("core", "tui", "docs") for path in sorted((OWN / part).rglob("*"))]
    texts = [path for path in paths if path.suffix in {".py", ".md", ".tcss", ".toml"}]
    return committed(root, {str(path.relative_to(OWN)): path.read_text() for path in texts} | dict(files or {}))
