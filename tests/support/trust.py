"""A user who has said that they trust a project."""

from __future__ import annotations

from pathlib import Path

from core.permissions.trust import Trust


def trust(project: Path) -> None:
    """As if they had answered yes in it once."""
    Trust(project.resolve()).give()
