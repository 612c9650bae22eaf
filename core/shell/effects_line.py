"""One line about a command's effects on the tree, for the model and the user."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from core.protocol.events import EffectsRecorded

MAX_NAMED = 4


def format_effects(effects: EffectsRecorded) -> str:
    """Format effects: `changed: edited a.py; deleted 12 files below build; 240 generated files; pending review`."""
    if effects.discarded:
        return "; ".join(("what it changed was discarded", *effects.notes))
    reviewed = [
        f"{verb} {_format_paths(paths)}"
        for verb, paths in (("edited", effects.edited), ("created", effects.created), ("deleted", effects.deleted))
        if paths
    ]
    count = f"{effects.generated:,} generated file{'' if effects.generated == 1 else 's'}"
    parts = [*reviewed, *([count] if effects.generated else [])]
    if not parts:
        return "; ".join(("changed nothing", *effects.notes))
    waiting = ["pending review"] if reviewed else ["kept beside the review"]
    return f"changed: {'; '.join([*parts, *waiting, *effects.notes])}"


def _format_paths(paths: Sequence[str]) -> str:
    if len(paths) <= MAX_NAMED:
        return ", ".join(paths)
    common = posixpath.commonpath(paths) if all(paths) else ""
    return f"{len(paths):,} files{f' below {common}' if common else ''}"
