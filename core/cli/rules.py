"""`agent-tui rules`: list the rule files that apply in a project, with the reason for every one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import add_directory, build_parser, parse_directory
from core.cli.streams import write_json
from core.engine.queries.extensions import list_rules
from core.exits import ExitCode
from core.permissions.trust import TrustStore
from core.protocol.events import LoadedRule
from core.text.display_names import to_one_line
from core.workspace import Workspace

RULES_USAGE = "agent-tui rules [DIR] [--for FILE ...] [--json]"

RULES_TEXT = """\
List the rule files loaded for an agent in DIR, in order (if two disagree, the
later one wins), and those not loaded, with the reason. --for adds the rules for
work on a file. A project's rules are listed once you trust it. On the screen,
/rules shows those of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesArguments(Arguments):
    """`paths`: files that are worked on, relative to the project."""

    front: ClassVar[Front] = "rules"
    paths: tuple[str, ...] = ()
    json: bool = False


def parse(argv: Sequence[str]) -> RulesArguments:
    """Parse the arguments of `agent-tui rules`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui rules", RULES_USAGE, RULES_TEXT)
    add_directory(parser)
    parser.add_argument("--for", dest="paths", action="append", metavar="FILE", help="a file being worked on")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    args = parser.parse_intermixed_args(argv)
    return RulesArguments(directory=parse_directory(args.words, parser), paths=tuple(args.paths or ()), json=args.json)


def run(arguments: RulesArguments) -> int:
    """Print the list, or all of its data as JSON."""
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    is_trusted = trust.has_trust()
    paths = tuple(workspace.to_relative(_absolute(arguments.directory, path)) for path in arguments.paths)
    rows = list_rules(workspace, trust.load_files().is_trusted if is_trusted else None, paths)
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return ExitCode.DONE
    sys.stdout.write("".join(f"{line}\n" for line in format_rules(rows)))
    if not is_trusted:
        sys.stdout.write("This project is not trusted: its own rules are not loaded.\n")
    return ExitCode.DONE


def _absolute(directory: Path, path: str) -> str:
    """Return a path for the workspace: one that is relative to the current directory may lie in the project."""
    local_path = Path.cwd() / path
    return str(local_path) if local_path.exists() and local_path.is_relative_to(directory) else path


def format_rules(rows: Sequence[LoadedRule]) -> list[str]:
    """Format a line for every rule: its position (`-` = not sent), kind, size, path and reason; below it, its note."""
    if not rows:
        return ["There are no rules here."]
    widths = (max(len(row.kind) for row in rows), max(len(to_one_line(row.path)) for row in rows))
    lines = []
    for row in rows:
        position = str(row.position) if row.position else "-"
        prefix = f"{position:>3}  {row.kind:<{widths[0]}}  {row.size:>6,}  {to_one_line(row.path):<{widths[1]}}  "
        lines.append(f"{prefix}{to_one_line(row.reason)}".rstrip())
        if row.note:
            lines.append(f"     ! {to_one_line(row.note)}")
    return lines
