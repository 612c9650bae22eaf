"""The file that keeps how far the user is with tour and hints, and what they chose last in the palette: one for all
projects, in the state directory.

It is a convenience: a file that can't be read or written means that a hint is shown once more, and nothing else.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.filesystem.atomic_write import replace_file
from core.filesystem.private_directories import make_private_directory
from core.protocol.commands import GuideKeep
from core.records import decode_json
from core.user_dirs import get_state_dir

NEW: Final = "new"
MAX_HINTS: Final = 200
MAX_CHOSEN: Final = 8  # that come first in the palette
_CODE: Final = re.compile(r"\.(py|tsx?|jsx?|go|rs|java|kt|cc?|cpp|h|cs|rb|php|swift|scala|exs?|hs)\Z")


class GuideState(Struct, frozen=True, kw_only=True):
    """`tour`: a step's id, "new" or "done"; the others as in `GuideAnswer`."""

    tour: str = NEW
    shown: dict[str, int] = field(default_factory=dict)
    used: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()


def load_guide() -> GuideState:
    """Return what is kept. Somebody who has worked with the program before it was kept is shown no tour."""
    path = _get_path()
    with suppress(OSError, ValueError):
        return decode_json(path.read_bytes(), GuideState)
    return GuideState(tour="done" if _has_worked_before(path.parent) else NEW)


def save_guide(command: GuideKeep) -> None:
    """Note what a command says."""
    before = load_guide()
    hint_counts = dict(before.shown)
    if command.shown:
        hint_counts[command.shown] = hint_counts.get(command.shown, 0) + 1
    used_hints = dict.fromkeys((*before.used, *([command.used] if command.used else [])))
    choices = dict.fromkeys((*([command.chosen] if command.chosen else []), *before.chosen))
    after = replace(
        before,
        tour=command.tour or before.tour,
        shown=dict(islice(hint_counts.items(), MAX_HINTS)),
        used=tuple(islice(used_hints, MAX_HINTS)),
        chosen=tuple(islice(choices, MAX_CHOSEN)),
    )
    path = _get_path()
    with suppress(OSError):
        make_private_directory(path.parent)
        replace_file(path, msgspec.json.encode(after), durable=False)


def choose_file(paths: tuple[str, ...]) -> str:
    """Return a file that is a good example: code before other text, and not deep in the tree; "" = there is none."""
    return min(paths, key=lambda path: (_CODE.search(path) is None, path.count("/"), path), default="")


def _get_path() -> Path:
    return get_state_dir() / "guide.json"


def _has_worked_before(state: Path) -> bool:
    """True if there is another session than the one that was just begun."""
    with suppress(OSError):
        return len(list(islice(state.glob("workspaces/*/sessions/*"), 2))) > 1
    return False
