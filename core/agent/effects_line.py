"""What a command did to the tree, in one line for the model and the user."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from core.protocol.events import EffectsRecorded

NAMED = 4


def effects_line(effects: EffectsRecorded) -> str:
    """`changed: edited a.py; deleted 12 files below build; 240 generated files; pending review`."""
    if effects.discarded:
        return "; ".join(("what it changed was discarded", *effects.notes))
    reviewed = [
        f"{verb} {_named(paths)}"
        for verb, paths in (("edited", effects.edited), ("created", effects.created), ("deleted", effects.deleted))
        if paths
    ]
    count = f"{effects.generated:,} generated file{'' if effects.generated == 1 else 's'}"
    parts = [*reviewed, *([count] if effects.generated else [])]
    if not parts:
        return "; ".join(("changed nothing", *effects.notes))
    waiting = ["pending review"] if reviewed else ["kept beside the review"]
    return f"changed: {'; '.join([*parts, *waiting, *effects.notes])}"


def _named(paths: Sequence[str]) -> str:
    if len(paths) <= NAMED:
        return ", ".join(paths)
    common = posixpath.commonpath(paths) if all(paths) else ""
    return f"{len(paths):,} files{f' below {common}' if common else ''}"
