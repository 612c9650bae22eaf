"""A user who has said that they trust a project."""

from __future__ import annotations

from pathlib import Path

from core.engine.shared.project_trust import ProjectTrust
from core.workspace import Workspace


def trust(project: Path) -> None:
    """As if they had answered yes in it just now."""
    trusting = ProjectTrust(Workspace(project), for_now=False)
    trusting.decide(True)


def make_trusted(root: Path) -> Path:
    """A new directory, trusted."""
    root.mkdir()
    trust(root)
    return root
