"""`agent-tui commands`: what a prompt can call by `/name`, and what each would send."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from core.cli.extensions.skills import UNTRUSTED, format_skipped
from core.cli.parsing import Arguments, Front, build_parser, parse_directory
from core.cli.streams.json_escapes import write_json
from core.engine.prompt_commands import load_prompt_commands
from core.engine.queries.extensions import list_commands, preview_command
from core.exits import ExitCode
from core.permissions.trust import TrustStore
from core.permissions.trusted_files import TrustCheck
from core.protocol.queries import CommandsAnswer
from core.text.display_names import to_one_line
from core.text.exposure import expose_line, expose_text
from core.workspace import Workspace

COMMANDS_USAGE = """\
agent-tui commands [list] [DIR] [--json]
       agent-tui commands explain NAME [ARGUMENTS] [--dir DIR] [--json]"""

COMMANDS_TEXT = """\
List what a prompt in DIR can call by /name beside the commands of the screen:
your own command files and skills. explain prints what a call would send, with
its arguments in place; nothing in it is run. Those of a project are listed once
you trust it. agent-tui -p "/name arguments" sends one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsArguments(Arguments):
    """`name`: the command to be explained, "" = all are listed."""

    front: ClassVar[Front] = "commands"
    name: str = ""
    given: str = ""
    json: bool = False


def parse(argv: Sequence[str]) -> CommandsArguments:
    """Check the words behind `agent-tui commands`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui commands", COMMANDS_USAGE, COMMANDS_TEXT)
    parser.add_argument("words", nargs="*", metavar="ACTION", help="list (default), or explain NAME [ARGUMENTS]; DIR")
    parser.add_argument("--dir", default="", metavar="DIR", help="with explain: the project")
    parser.add_argument("--json", action="store_true", help="all of it, as JSON")
    said = parser.parse_intermixed_args(argv)
    if said.words[:1] != ["explain"]:
        words = said.words[1:] if said.words[:1] == ["list"] else said.words
        return CommandsArguments(directory=parse_directory(words, parser), json=said.json)
    if len(said.words) < 2:
        parser.error("explain needs the name of a command")
    directory = parse_directory([said.dir] if said.dir else [], parser)
    name, given = said.words[1].removeprefix("/"), _join_words(said.words[2:])
    return CommandsArguments(directory=directory, name=name, given=given, json=said.json)


def _join_words(words: Sequence[str]) -> str:
    """Join the words of a shell as they are written in a prompt; a single one may be all of them, in quotes."""
    import shlex

    is_whole = len(words) == 1
    return " ".join(each if is_whole or len(each.split()) == 1 else shlex.quote(each) for each in words)


def run(arguments: CommandsArguments) -> int:
    """Print the commands, or what one would send."""
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    check = trust.load_files().is_trusted if trust.is_given() else None
    if arguments.name:
        return _explain(workspace, check, arguments)
    found = list_commands(workspace, check)
    if arguments.json:
        _write_json(found)
        return ExitCode.DONE
    sys.stdout.write("".join(f"{line}\n" for line in format_commands(found)))
    if check is None:
        sys.stdout.write(UNTRUSTED)
    return ExitCode.DONE


def format_commands(found: CommandsAnswer) -> list[str]:
    """Format one line a command: its name with the words that it takes, where it comes from, and what it is for."""
    if not found.commands and not found.skipped:
        return [f"There are no commands {'here' if found.is_trusted else 'of your own'} but those of the screen."]
    lines = []
    for each in found.commands:
        called = f"/{each.name} {each.hint}".strip()
        lines.append(f"{to_one_line(called)}  [{each.scope} {each.kind}: {to_one_line(each.path)}]")
        lines.append(f"    {to_one_line(each.description)}")
        lines += [f"  ! {to_one_line(problem)}" for problem in each.problems]
    return lines + format_skipped(found.skipped)


def _explain(workspace: Workspace, check: TrustCheck | None, arguments: CommandsArguments) -> int:
    found = load_prompt_commands(workspace, check).find(arguments.name)
    if found is None:
        sys.stderr.write(f"There is no command {arguments.name!r} here; agent-tui commands lists them.\n")
        if check is None:
            sys.stderr.write(UNTRUSTED)
        return ExitCode.FAILED
    shown = preview_command(found, arguments.given)
    if arguments.json:
        _write_json(shown)
        return ExitCode.DONE
    runs = "".join(f"! would run, in the box and with nothing of it kept: {expose_line(each)}\n" for each in shown.runs)
    sys.stdout.write(f"{to_one_line(str(Path(shown.path)))}\n{runs}\n{expose_text(shown.text)}\n")
    return ExitCode.DONE


def _write_json(found: msgspec.Struct) -> None:
    write_json(msgspec.json.format(msgspec.json.encode(found), indent=2))
