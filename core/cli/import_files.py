"""`agent-tui import`: list what is used of the files that the user has for other agents, and what is not.

Nothing is copied: the files are read where they are, each time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import add_directory, build_parser, parse_directory
from core.cli.streams import write_json
from core.engine.configuration.foreign_files import ForeignFile, list_foreign_files
from core.exits import ExitCode
from core.permissions.trust import TrustStore
from core.text.display_names import to_one_line
from core.workspace import Workspace

IMPORT_USAGE = "agent-tui import [DIR] [--json]"

IMPORT_TEXT = """\
List the files for other agents that are found in your home and in DIR (Claude
Code, Codex, Cursor, Copilot, Gemini, opencode), what each is used for here (+),
and what in it has no effect, with the reason (-). Nothing is copied: the files
are read where they are. A project's are read once you trust it."""
NONE = "No files of other agents are found."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportArguments(Arguments):
    front: ClassVar[Front] = "import"
    json: bool = False


def parse(argv: Sequence[str]) -> ImportArguments:
    """Parse the arguments of `agent-tui import`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui import", IMPORT_USAGE, IMPORT_TEXT)
    add_directory(parser)
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    args = parser.parse_intermixed_args(argv)
    return ImportArguments(directory=parse_directory(args.words, parser), json=args.json)


def run(arguments: ImportArguments) -> int:
    """Print the files with what is used of them, or all of it as JSON. Returns the exit code."""
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    is_trusted = trust.has_trust()
    files = list_foreign_files(workspace, trust.load_files().is_trusted if is_trusted else None)
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(files), indent=2))
        return ExitCode.DONE
    sys.stdout.write("".join(f"{line}\n" for line in format_files(files)))
    if not is_trusted:
        sys.stdout.write("This project is not trusted: its own files are not read.\n")
    return ExitCode.DONE


def format_files(files: Sequence[ForeignFile]) -> Iterator[str]:
    """Format a line for every file, and one for each thing that is used of it or has no effect."""
    if not files:
        yield NONE
    for file in files:
        yield to_one_line(file.path)
        yield from (f"  + {to_one_line(line)}" for line in file.used)
        yield from (f"  - {to_one_line(line)}" for line in file.unused)
