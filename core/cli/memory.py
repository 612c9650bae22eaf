"""`agent-tui memory`: list the notes about a project, which outlive a session, and accept or reject proposed notes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import add_directory, build_parser, parse_directory
from core.cli.streams import write_json
from core.config.rules.notes import ProjectNotes
from core.exits import ExitCode
from core.text.display_names import to_one_line
from core.workspace import Workspace

MEMORY_USAGE = "agent-tui memory [DIR] [--add TEXT | --accept ID | --reject ID] [--json]"

MEMORY_TEXT = """\
List the notes about DIR that every session there loads, with their ids, and
those that an agent proposes (marked ?). --accept keeps a proposed note, --reject
drops a note, --add saves a note of yours."""

NONE = "There are no notes about this project."


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryArguments(Arguments):
    """`add`: the text of a new note; `accept`, `reject`: the id of a note."""

    front: ClassVar[Front] = "memory"
    add: str = ""
    accept: str = ""
    reject: str = ""
    json: bool = False


def parse(argv: Sequence[str]) -> MemoryArguments:
    """Parse the arguments of `agent-tui memory`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui memory", MEMORY_USAGE, MEMORY_TEXT)
    add_directory(parser)
    verdict = parser.add_mutually_exclusive_group()
    verdict.add_argument("--add", metavar="TEXT", help="save a note of yours")
    verdict.add_argument("--accept", metavar="ID", help="keep a proposed note")
    verdict.add_argument("--reject", metavar="ID", help="drop a note")
    parser.add_argument("--json", action="store_true", help="the notes, as JSON")
    args = parser.parse_intermixed_args(argv)
    return MemoryArguments(
        directory=parse_directory(args.words, parser),
        add=args.add or "",
        accept=args.accept or "",
        reject=args.reject or "",
        json=args.json,
    )


def run(arguments: MemoryArguments) -> int:
    """Carry out the verdict if there is one, else list the notes. Returns the exit code."""
    notes = ProjectNotes(Workspace(arguments.directory).root)
    if arguments.add:
        notes.add(arguments.add, is_kept=True)
    elif arguments.accept:
        notes.accept(arguments.accept)
    elif arguments.reject:
        notes.reject(arguments.reject)
    elif arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(notes.load()), indent=2))
    else:
        rows = [f"{' ' if note.is_kept else '?'} {note.id}  {to_one_line(note.text)}" for note in notes.load()]
        sys.stdout.write("\n".join(rows or [NONE]) + "\n")
    return ExitCode.DONE
