"""`agent-tui attach`: open the screen on a session that an engine has open, or list these sessions.

A session that is not open is resumed from its log, as `--resume` does, whatever its project is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from core.arguments import Arguments, Front
from core.cli.parsing import build_parser, parse_directory, parse_session_id
from core.errors import StateError
from core.exits import ExitCode
from core.protocol.queries import SessionInfo
from core.sessions.listing import find_workspace, list_sessions
from core.sessions.store import SessionStore
from core.text.display_names import display_name, to_one_line
from core.transports.session_sockets import list_reachable

USAGE = "agent-tui attach [SESSION | --list] [--dir DIR]"
TEXT = """\
Show a running session: one that was detached (/detach), or that is open on
another screen. Several screens can show one session; an approval or question can
be answered on any of them.

Without SESSION, the project's running session is shown; if there are several,
they are listed. A session that is not running is resumed, as with --resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachArguments(Arguments):
    """`session` "" = the running one of the project in `directory`."""

    front: ClassVar[Front] = "attach"
    session: str = ""
    list_only: bool = False


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session that can be attached to, and its project."""

    info: SessionInfo
    workspace: Path


def parse(argv: Sequence[str]) -> AttachArguments:
    """Parse the arguments of `attach`. Raises SystemExit."""
    parser = build_parser("agent-tui attach", USAGE, TEXT)
    parser.add_argument("session", nargs="?", type=parse_session_id, metavar="SESSION", help="the ID of a session")
    parser.add_argument("--list", action="store_true", help="list the running sessions of all projects")
    parser.add_argument("--dir", metavar="DIR", help="the project (default: the current directory)")
    args = parser.parse_args(argv)
    if args.list and args.session:
        parser.error("--list takes no session")
    directory = parse_directory([args.dir] if args.dir is not None else [], parser)
    return AttachArguments(directory=directory, session=args.session or "", list_only=args.list)


def list_running() -> list[RunningSession]:
    """Return the sessions that can be attached to, newest first."""
    running_sessions = []
    for session in list_reachable():
        if (workspace := find_workspace(session)) is None:
            continue  # it belongs to another state directory
        infos = list_sessions(SessionStore(workspace), limit=sys.maxsize)
        running_sessions += [RunningSession(info, workspace) for info in infos if info.id == session]
    return running_sessions


def choose_running(arguments: AttachArguments) -> tuple[str, Path] | None:
    """Return the session to show and its project; None: a list is to be printed. Raises `StateError`."""
    if arguments.list_only:
        return None
    if session := arguments.session:
        if (workspace := find_workspace(session)) is None:
            hint = "`agent-tui attach --list` lists the running ones, `agent-tui sessions` all of a project."
            raise StateError(f"there is no session {session!r}, or its project is gone.", hint=hint)
        return session, workspace
    running_sessions = _list_here(arguments.directory)
    return (running_sessions[0].info.id, running_sessions[0].workspace) if len(running_sessions) == 1 else None


def _list_here(directory: Path) -> list[RunningSession]:
    return [session for session in list_running() if session.workspace == directory]


def run(arguments: AttachArguments) -> int:
    """Print the sessions that can be attached to. Returns the exit code."""
    sessions = list_running() if arguments.list_only else _list_here(arguments.directory)
    if not sessions:
        location = "" if arguments.list_only else f" in {display_name(str(arguments.directory))}"
        sys.stdout.write(f"No session is running{location}. Resume the last one: agent-tui -c\n")
        return ExitCode.DONE if arguments.list_only else ExitCode.FAILED
    for session in sessions:
        title = to_one_line(session.info.title or "Untitled")[:60]
        sys.stdout.write(f"{session.info.id}  {title}  {display_name(str(session.workspace))}\n")
    sys.stdout.write("Show one: agent-tui attach SESSION\n")
    return ExitCode.DONE
