"""`agent-tui config`: explain settings, check the whole configuration, or open it in the user's editor."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import Parser, build_parser, parse_directory
from core.cli.streams import write_json
from core.config.loading import load_with_notices
from core.config.settings import FILE_NAME
from core.engine.configuration.explanation import SettingSources, explain_settings
from core.engine.configuration.settings_lint import InterfaceCheck, check_configuration, check_text
from core.errors import StateError
from core.exits import ExitCode
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_files import make_private_directory
from core.permissions.trust import TrustStore
from core.permissions.trusted_files import TrustCheck
from core.protocol.queries import SettingRow, SettingsProblem
from core.text.display_names import to_one_line
from core.user_dirs import get_config_dir
from core.workspace import Workspace

CONFIG_USAGE: Final = "agent-tui config explain [KEY] [--json] | check [--json] | edit   [--dir DIR]"
CONFIG_TEXT: Final = """\
explain lists the settings in effect in DIR, each with the file and line it comes
from; with a KEY (limits.max_cost, providers.work, ui) its meaning, default and
valid values. check looks for mistakes in everything at once, also in rules, keys,
themes, models, MCP servers, hooks and skills; it fails if nothing would start.
edit opens your config.toml in $VISUAL or $EDITOR and checks it before saving."""
HEAD: Final = "# agent-tui config explain lists the settings.\n"
_WIDTH: Final = 80
Action = Literal["explain", "check", "edit"]
FindEditor = Callable[[Mapping[str, str]], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigArguments(Arguments):
    """`key`: the setting or table of settings to explain; "" = all of them."""

    front: ClassVar[Front] = "config"
    action: Action = "explain"
    key: str = ""
    json: bool = False


def parse(argv: Sequence[str]) -> ConfigArguments:
    """Parse the arguments of `agent-tui config`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui config", CONFIG_USAGE, CONFIG_TEXT)
    parser.add_argument("action", choices=("explain", "check", "edit"), metavar="ACTION", help="explain, check or edit")
    parser.add_argument("key", nargs="?", default="", metavar="KEY", help="a setting, or a table of them")
    parser.add_argument("--dir", default="", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    args = parser.parse_intermixed_args(argv)
    _check_together(args.action, args.key, args.json, parser)
    directory = parse_directory([args.dir] if args.dir else [], parser)
    return ConfigArguments(directory=directory, action=args.action, key=args.key, json=args.json)


def _check_together(action: str, key: str, as_json: bool, parser: Parser) -> None:
    if key and action != "explain":
        parser.error(f"{action} takes no key; explain does")
    if as_json and action == "edit":
        parser.error("--json works only with explain and check")


def run(arguments: ConfigArguments, *, check_interface: InterfaceCheck, find_editor: FindEditor) -> int:
    """Explain, check or edit. Returns `ExitCode.FAILED` if the program could not start with this configuration."""
    if arguments.action == "edit":
        return _Editing(check_interface, find_editor).run()
    workspace, is_trusted = _open_project(arguments.directory)
    if arguments.action == "check":
        problems = check_configuration(workspace, is_trusted, check_interface)
        _print(arguments, problems, format_problems(problems, is_trusted=is_trusted is not None))
        return ExitCode.FAILED if any(problem.level == "error" for problem in problems) else ExitCode.DONE
    root = workspace.root if is_trusted is not None else None
    settings = load_with_notices(root, is_trusted or (lambda *_: False)).settings
    rows = explain_settings(settings, SettingSources(root), arguments.key)
    _print(arguments, rows, format_settings(rows))
    return ExitCode.DONE


def _open_project(directory: Path) -> tuple[Workspace, TrustCheck | None]:
    workspace = Workspace(directory)
    trust = TrustStore(workspace.root)
    return workspace, trust.load_files().is_trusted if trust.has_trust() else None


def _print(arguments: ConfigArguments, results: object, lines: Iterator[str]) -> None:
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(results), indent=2))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines))


def format_settings(rows: Sequence[SettingRow]) -> Iterator[str]:
    """Format one setting with all its details, or several settings with their values, a line for every one."""
    if len(rows) == 1:
        yield from _format_setting(rows[0])
        return
    width = max(len(row.key) for row in rows)
    for row in rows:
        yield f"{row.key:<{width}}  {_format_value(row.value)}{f'   ({row.source})' if row.source else ''}"


def _format_setting(row: SettingRow) -> Iterator[str]:
    yield f"{row.key} = {_format_value(row.value)}"
    for label, text in (
        ("from", row.source or "default"),
        ("means", row.meaning),
        ("valid", row.valid),
        ("default", _format_value(row.default)),
    ):
        lines = textwrap.wrap(to_one_line(text), _WIDTH - 10, break_on_hyphens=False, break_long_words=False) or ["-"]
        yield f"  {label:<8}{lines[0]}"
        yield from (f"{'':<10}{line}" for line in lines[1:])


def _format_value(value: object) -> str:
    return to_one_line(msgspec.json.encode(value).decode()) if value is not None else "none"


def format_problems(problems: Sequence[SettingsProblem], *, is_trusted: bool = True) -> Iterator[str]:
    """Format the problems, errors first, with the hint below every one."""
    for problem in sorted(problems, key=lambda problem: problem.level != "error"):
        yield f"{problem.level}: {to_one_line(problem.message)}"
        if problem.hint:
            yield f"  {to_one_line(problem.hint)}"
    if not problems:
        yield "No problems."
    if not is_trusted:
        yield "The project's own files were not read: you have not trusted it."


class _Editing:
    """Edits a copy of the user's file; the copy replaces the file if it is valid, or if the user insists."""

    def __init__(self, check_interface: InterfaceCheck, find_editor: FindEditor) -> None:
        self._check_interface, self._find_editor = check_interface, find_editor
        self._path = get_config_dir() / FILE_NAME

    def run(self) -> int:
        before = self._path.read_bytes() if self._path.exists() else HEAD.encode()
        with tempfile.TemporaryDirectory(prefix="agent-tui-") as scratch:
            copy = Path(scratch) / FILE_NAME
            copy.write_bytes(before)
            while True:
                self._open_editor(copy)
                after = copy.read_bytes()
                if after == before:
                    sys.stdout.write("Nothing was changed.\n")
                    return ExitCode.DONE
                problems = check_text(self._path, after, self._check_interface)
                is_usable = all(problem.level != "error" for problem in problems)
                sys.stdout.write("".join(f"{line}\n" for line in format_problems(problems)))
                match "" if is_usable and not problems else self._ask():
                    case "q":
                        sys.stdout.write("Nothing was saved.\n")
                        return ExitCode.FAILED
                    case "" | "s":
                        self._save(after)
                        return ExitCode.DONE if is_usable else ExitCode.FAILED

    def _open_editor(self, path: Path) -> None:
        try:
            command = [*self._find_editor(os.environ), str(path)]
            subprocess.run(command, check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as problem:
            raise StateError(f"the editor did not work: {problem}.", hint="Set $EDITOR.") from problem

    def _ask(self) -> str:
        """Return the user's choice about an invalid file; without a terminal it is not saved."""
        while sys.stdin.isatty():
            sys.stdout.write("e: edit again, s: save as it is, q: quit without saving [e] ")
            sys.stdout.flush()
            answer = (sys.stdin.readline() or "q").strip().lower()[:1] or "e"
            if answer in {"e", "s", "q"}:
                return answer
        return "q"

    def _save(self, data: bytes) -> None:
        try:
            make_private_directory(self._path.parent)
            replace_file(self._path.resolve(), data)
        except OSError as problem:
            message = f"{self._path} can't be written: {problem.strerror}."
            raise StateError(message, hint="Make it writable.") from problem
        sys.stdout.write(f"Saved: {self._path}\n")
