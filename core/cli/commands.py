"""`agent-tui commands`: list the commands that a prompt can call by `/name`, or preview what a call sends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import build_parser, parse_directory
from core.cli.skills import UNTRUSTED, format_skipped
from core.cli.streams import write_json
from core.engine.queries.extensions import list_commands, preview_command
from core.engine.turns.prompt_commands import load_prompt_commands
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
List what a prompt in DIR can call with /name besides the screen's own commands:
your command files and skills. explain prints what a call would send, with its
arguments filled in; nothing in it is run. A project's own are listed once you
trust it. agent-tui -p "/name arguments" sends one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsArguments(Arguments):
    """`name`: the command to explain, "" = list all of them."""

    front: ClassVar[Front] = "commands"
    name: str = ""
    given: str = ""
    json: bool = False


def parse(argv: Sequence[str]) -> CommandsArguments:
    """Parse the arguments of `agent-tui commands`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui commands", COMMANDS_USAGE, COMMANDS_TEXT)
    parser.add_argument("words", nargs="*", metavar="ACTION", help="list (default), or explain NAME [ARGUMENTS]; DIR")
    parser.add_argument("--dir", default="", metavar="DIR", help="with explain: the project")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    args = parser.parse_intermixed_args(argv)
    if args.words[:1] != ["explain"]:
        words = args.words[1:] if args.words[:1] == ["list"] else args.words
        return CommandsArguments(directory=parse_directory(words, parser), json=args.json)
    if len(args.words) < 2:
        parser.error("explain needs a command name")
    directory = parse_directory([args.dir] if args.dir else [], parser)
    name, argument_text = args.words[1].removeprefix("/"), _join_words(args.words[2:])
    return CommandsArguments(directory=directory, name=name, given=argument_text, json=args.json)


def _join_words(words: Sequence[str]) -> str:
    """Join words of a shell as in a prompt; a single word may hold all of them, in quotes."""
    import shlex

    is_whole = len(words) == 1
    return " ".join(word if is_whole or len(word.split()) == 1 else shlex.quote(word) for word in words)


def run(arguments: CommandsArguments) -> int:
    """Print the commands, or what one of them would send."""
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    check = trust.load_files().is_trusted if trust.has_trust() else None
    if arguments.name:
        return _explain(workspace, check, arguments)
    answer = list_commands(workspace, check)
    if arguments.json:
        _write_json(answer)
        return ExitCode.DONE
    sys.stdout.write("".join(f"{line}\n" for line in format_commands(answer)))
    if check is None:
        sys.stdout.write(UNTRUSTED)
    return ExitCode.DONE


def format_commands(answer: CommandsAnswer) -> list[str]:
    """Format a line for every command: its name, its argument hint and its origin; below it, its description."""
    if not answer.commands and not answer.skipped:
        return [f"There are no commands {'here' if answer.is_trusted else 'of your own'} besides those of the screen."]
    lines = []
    for command in answer.commands:
        usage = f"/{command.name} {command.hint}".strip()
        lines.append(f"{to_one_line(usage)}  [{command.scope} {command.kind}: {to_one_line(command.path)}]")
        lines.append(f"    {to_one_line(command.description)}")
        lines += [f"  ! {to_one_line(problem)}" for problem in command.problems]
    return lines + format_skipped(answer.skipped)


def _explain(workspace: Workspace, check: TrustCheck | None, arguments: CommandsArguments) -> int:
    command = load_prompt_commands(workspace, check).find(arguments.name)
    if command is None:
        sys.stderr.write(f"There is no command {arguments.name!r} here; agent-tui commands lists them.\n")
        if check is None:
            sys.stderr.write(UNTRUSTED)
        return ExitCode.FAILED
    preview = preview_command(command, arguments.given)
    if arguments.json:
        _write_json(preview)
        return ExitCode.DONE
    runs = "".join(
        f"! would run sandboxed, and its changes would be dropped: {expose_line(command_line)}\n"
        for command_line in preview.runs
    )
    sys.stdout.write(f"{to_one_line(str(Path(preview.path)))}\n{runs}\n{expose_text(preview.text)}\n")
    return ExitCode.DONE


def _write_json(struct: msgspec.Struct) -> None:
    write_json(msgspec.json.format(msgspec.json.encode(struct), indent=2))
