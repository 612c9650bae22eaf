"""The programs of this installation that commands find on their PATH, after the user's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from core.filesystem.private_files import make_private_directory
from core.ids import new_id


def offer_programs(directory: Path, programs: Sequence[Path]) -> tuple[Path, ...]:
    """Link the programs into `directory`, under their own names. Return what a command has to be able to read: the
    directory, for its PATH, and the programs; () if there are none, or they can't be linked."""
    targets = [Path(os.path.realpath(program)) for program in programs]
    try:
        make_private_directory(directory)
        for program, target in zip(programs, targets, strict=True):
            _link(directory / program.name, target)
    except OSError:
        return ()
    return (directory, *targets) if targets else ()


def _link(path: Path, target: Path) -> None:
    """Make a link, or let it point to another program: several installations share the directory."""
    if path.is_symlink() and path.readlink() == target:
        return
    fresh = path.with_name(new_id("link"))
    fresh.symlink_to(target)
    fresh.replace(path)
