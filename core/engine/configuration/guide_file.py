"""The state of the guide: progress of the tour, hints that were displayed, and the last choices in the palette.

It is one file for all projects, in the state directory. If it can't be read or written, a hint is displayed once more.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.filesystem.atomic_write import replace_file
from core.filesystem.private_files import make_private_directory
from core.patterns import compile_lazily
from core.protocol.commands import GuideKeep
from core.records import decode_json
from core.user_dirs import get_state_dir

NEW: Final = "new"
MAX_HINTS: Final = 200
MAX_CHOSEN: Final = 8  # entries at the top of the palette
_CODE: Final = compile_lazily(r"\.(py|tsx?|jsx?|go|rs|java|kt|cc?|cpp|h|cs|rb|php|swift|scala|exs?|hs)\Z")


class GuideState(Struct, frozen=True, kw_only=True):
    """`tour`: a step's id, "new" or "done"; the others as in `GuideAnswer`."""

    tour: str = NEW
    shown: dict[str, int] = field(default_factory=dict)
    used: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()


def load_guide() -> GuideState:
    """Load the state of the guide. Without a file, users with earlier sessions get no tour."""
    path = _get_path()
    with suppress(OSError, ValueError):
        return decode_json(path.read_bytes(), GuideState)
    return GuideState(tour="done" if _has_worked_before(path.parent) else NEW)


def save_guide(command: GuideKeep) -> None:
    """Add the progress in a command to the file."""
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
    """Choose a file as an example: code rather than other text, near the root; "" = there is none."""
    return min(paths, key=lambda path: (_CODE.search(path) is None, path.count("/"), path), default="")


def _get_path() -> Path:
    return get_state_dir() / "guide.json"


def _has_worked_before(state: Path) -> bool:
    """True if there is a session besides the present one."""
    with suppress(OSError):
        return len(list(islice(state.glob("workspaces/*/sessions/*"), 2))) > 1
    return False
