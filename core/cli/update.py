"""`agent-tui update`: how to update this installation, by the program that made it. It changes nothing itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from core import __version__
from core.arguments import Arguments, Front
from core.cli.parsing import build_parser
from core.exits import ExitCode
from core.installation import UNKNOWN, list_update_commands

UPDATE_USAGE: Final = "agent-tui update"
UPDATE_TEXT: Final = """\
Print the commands that update and remove this installation (made by pipx, uv, pip or
from a checkout). Nothing is changed: bring your checkout or wheel up to date first, then
run the command. Sessions and settings stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateArguments(Arguments):
    """There is nothing to choose."""

    front: ClassVar[Front] = "update"


def parse(argv: Sequence[str]) -> UpdateArguments:
    """Parse the arguments after `update`. Raises `SystemExit` for wrong ones."""
    build_parser("agent-tui update", UPDATE_USAGE, UPDATE_TEXT).parse_args(list(argv))
    return UpdateArguments(directory=Path.cwd())


def run(_: UpdateArguments) -> int:
    """Print the version and the commands."""
    update, remove = list_update_commands()
    lines = [f"version   {__version__}", f"update    {update}"]
    lines += [f"remove    {remove}"] if remove else []
    if UNKNOWN in update:
        lines.append(f"{UNKNOWN} is the path of the checkout or wheel, which was not recorded.")
    sys.stdout.write("\n".join(lines) + "\n")
    return ExitCode.DONE
