"""`agent-tui report`: collect what helps to understand a fault as one Markdown text, without keys or file contents.

The report is printed before it is written anywhere, and nothing is sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from core import crash_reports
from core.arguments import Arguments, Front
from core.cli.doctor import DoctorArguments, describe_installation
from core.cli.parsing import build_parser, parse_directory
from core.config.loading import parse_table, read_settings_bytes
from core.config.settings import FILE_NAME
from core.engine.configuration.settings_lint import InterfaceCheck, check_text
from core.errors import AgentTuiError, StateError
from core.exits import ExitCode
from core.filesystem.atomic_write import replace_file
from core.protocol.events import ErrorRaised
from core.secrets import MASK, redact
from core.sessions.log import read_log
from core.sessions.store import SessionStore
from core.text.display_names import display_name, to_one_line
from core.user_dirs import get_config_dir, get_state_dir

REPORT_USAGE: Final = "agent-tui report [DIR] [--out FILE]"
REPORT_TEXT: Final = """\
Print a report about this installation to attach to a bug report: versions, the
terminal, the sandbox, settings, and recent errors and crashes. It has no keys,
headers, prompts, answers or files; read it before you send it. --out also writes
it to a file."""
MAX_ERRORS: Final = 10
MAX_CRASHES: Final = 3
MAX_SESSIONS: Final = 5  # whose errors are listed
_TERMINAL: Final = (
    *("TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "STY", "SSH_CONNECTION"),
    *("LANG", "LC_ALL", "NO_COLOR"),
)
_PRESENCE: Final = frozenset({"TMUX", "STY", "SSH_CONNECTION"})  # only whether they are set is reported
_HIDDEN_KEYS: Final = frozenset({"headers", "query", "key_command", "env", "database", "blobs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportArguments(Arguments):
    """`out`: the file to write, None = only print."""

    front: ClassVar[Front] = "report"
    out: Path | None = None


def parse(argv: Sequence[str]) -> ReportArguments:
    """Parse the arguments of `agent-tui report`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui report", REPORT_USAGE, REPORT_TEXT)
    parser.add_argument("words", nargs="*", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a file to write it to")
    args = parser.parse_intermixed_args(argv)
    return ReportArguments(directory=parse_directory(args.words, parser), out=args.out)


def run(arguments: ReportArguments, *, check_interface: InterfaceCheck) -> int:
    """Print the report, and write it if a file is named."""
    text = build_report(arguments.directory, check_interface)
    sys.stdout.write(text)
    if arguments.out is None:
        sys.stderr.write("agent-tui: read it before you send it. --out FILE writes it to a file.\n")
        return ExitCode.DONE
    try:
        replace_file(arguments.out.expanduser().absolute(), text.encode())
    except OSError as problem:
        message = f"{arguments.out} can't be written: {problem.strerror}."
        raise StateError(message, hint="Name another file.") from problem
    sys.stderr.write(f"agent-tui: written to {display_name(str(arguments.out))}\n")
    return ExitCode.DONE


def build_report(directory: Path, check_interface: InterfaceCheck) -> str:
    """Build the report as Markdown. `~` replaces the home directory, and anything that looks like a key is masked."""
    parts = (
        ("Installation", _list_installation(directory)),
        ("Terminal", _list_terminal()),
        ("Settings", _list_settings(check_interface)),
        ("Errors of recent sessions here", _list_errors(directory)),
        ("Crashes", _list_crashes()),
    )
    text = "# agent-tui report\n\nWhat I did, what I expected, and what happened:\n\n\n"
    for title, lines in parts:
        body = "\n".join(lines).replace("```", "'''") or "none"
        text += f"## {title}\n\n```\n{body}\n```\n\n"
    return redact(text).replace(str(Path.home()), "~")


def _list_installation(directory: Path) -> Iterator[str]:
    yield from describe_installation(DoctorArguments(directory=directory))


def _list_terminal() -> Iterator[str]:
    with suppress(OSError):
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
        yield f"{size.columns} columns, {size.lines} lines"
    for name in _TERMINAL:
        if value := os.environ.get(name):
            yield f"{name}={'set' if name in _PRESENCE else to_one_line(value)}"


def _list_settings(check_interface: InterfaceCheck) -> Iterator[str]:
    path = get_config_dir() / FILE_NAME
    try:
        data = read_settings_bytes(path)
        if data is None:
            yield "no config.toml: defaults apply"
            return
        _, table = parse_table(path, data)
    except AgentTuiError as problem:
        yield to_one_line(problem.format_with_hint())
        return
    yield msgspec.json.format(msgspec.json.encode(_mask(table)), indent=2).decode()
    yield from (
        f"{settings_problem.level}: {to_one_line(settings_problem.message)}"
        for settings_problem in check_text(path, data, check_interface)
    )


def _mask(value: object, key: str = "") -> object:
    """Return a settings value without anything that may hold a key."""
    if isinstance(value, dict):
        return {name: MASK if name in _HIDDEN_KEYS and child else _mask(child, name) for name, child in value.items()}
    return [_mask(child, key) for child in value] if isinstance(value, list) else value


def _list_errors(directory: Path) -> Iterator[str]:
    """Iterate over the last errors of this project's sessions, without any text of the conversation."""
    errors: list[str] = []
    for session in SessionStore(directory).list_directories()[:MAX_SESSIONS]:
        session_errors: list[str] = []

        def note(envelope: object, session_errors: list[str] = session_errors) -> None:
            event = getattr(envelope, "event", envelope)
            if isinstance(event, ErrorRaised):
                session_errors.append(to_one_line(f"{event.code}: {event.message}"))

        with suppress(AgentTuiError, OSError):
            read_log(session / "log.jsonl", note)
        errors += reversed(session_errors)
    yield from errors[:MAX_ERRORS]


def _list_crashes() -> Iterator[str]:
    folder = get_state_dir() / crash_reports.FOLDER
    for path in sorted(folder.glob("*.txt"), reverse=True)[:MAX_CRASHES]:
        with suppress(OSError):
            yield f"{path.name}\n{path.read_text(encoding='utf-8', errors='replace').rstrip()}\n"
