"""Common parts of the commands about one session's changes (`commit`, `pr`, `diff`): options, trust, reports.

They send the commands that the screen sends; a question of the screen is an option here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import Parser, parse_directory, parse_session_id
from core.cli.streams import escape_hidden, write_json
from core.engine import EngineOptions
from core.engine.shared.project_trust import TRUST_HINT, UNTRUSTED, ProjectTrust, explain_programs
from core.errors import CommandRejected
from core.exits import ExitCode
from core.filesystem.name_spelling import resolve_spelled
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client
from core.sessions.store import SessionStore
from core.state.session import SessionState
from core.text.counting import count
from core.text.display_names import to_one_line
from core.transports.session_client import SessionView, open_to_read, require_ack, resume_session
from core.workspace import Workspace

CODES: Final = """\
exit codes:
  0   done
  1   failed, or there is nothing to commit; the message says why
  2   wrong arguments
  4   refused by a hook, git or the remote, whose output is shown; or the project
      is not trusted"""

TRUST_QUESTION: Final = """\
{directory} is not trusted yet. This runs its git hooks and the programs named in
its git configuration, as you, unsandboxed. Trusting also loads the project's
rules and settings for the agent{holds}.
Trust this project? [y/N] """


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesArguments(Arguments):
    """`session` "" = the latest one. `writes_text`: a model writes the text. `dry_run`: change nothing; `trust`: for
    this run."""

    front: ClassVar[Front]
    session: str = ""
    writes_text: bool = False
    dry_run: bool = False
    json: bool = False
    trust: bool = False


def add_common_options(parser: Parser) -> None:
    """Add the options that these commands share."""
    parser.add_argument("words", nargs="*", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--session", type=parse_session_id, metavar="ID", help="the session (default: the last one)")
    parser.add_argument("--write-text", action="store_true", help="let a model write the text, in the style of the log")
    parser.add_argument("--dry-run", action="store_true", help="show what would happen, and stop")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--trust", action="store_true", help="trust the project for this run: also runs its git programs"
    )


def read_common_options(args: argparse.Namespace, parser: Parser) -> dict[str, Any]:
    """Return the fields of `ChangesArguments` that the common options set."""
    return {
        "directory": parse_directory(args.words, parser),
        "session": args.session or "",
        "writes_text": args.write_text,
        "dry_run": args.dry_run,
        "json": args.json,
        "trust": args.trust,
    }


def is_trusted(arguments: ChangesArguments, *, find_programs: Callable[[Path], Sequence[str]] | None = None) -> bool:
    """Return True if programs that the repository configures for git may run: the user trusts the project, or says so
    now.

    Nobody is asked without a terminal, for `--dry-run`, or if `find_programs` finds no such program in the project (a
    real path). A refusal is printed, with the way to grant trust.
    """
    if arguments.trust or arguments.dry_run:
        return True
    trust = ProjectTrust(Workspace(arguments.directory), for_now=False)
    if trust.trusted:
        return True
    programs = find_programs(arguments.directory.resolve()) if find_programs is not None else ()
    if find_programs is not None and not programs:
        return True
    if all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        sys.stderr.write(_render_trust_question(trust.build_question(), arguments.directory))
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            trust.decide(True)
            return True
    print_notice(f"agent-tui: {explain_programs(programs) if programs else UNTRUSTED} {TRUST_HINT}")
    return False


def _render_trust_question(trust_event: ev.TrustStated | None, directory: Path) -> str:
    contents, hooks = (trust_event.holds, trust_event.hooks) if trust_event is not None else ((), ())
    holds = f" ({', '.join(map(to_one_line, contents))})" if contents else ""
    lines = "".join(f"an agent hook: {to_one_line(line)}\n" for line in hooks)
    return escape_hidden(lines + TRUST_QUESTION.format(directory=to_one_line(str(directory)), holds=holds))


@asynccontextmanager
async def open_changes(
    arguments: ChangesArguments, session: str = "", *, is_reading: bool = False
) -> AsyncGenerator[SessionChanges]:
    """Open the session of the arguments. Raises `CommandRejected` if there is none, or (unless `is_reading`) if an
    unreachable program has it open."""
    session = session or arguments.session or SessionStore(arguments.directory).find_latest()
    if not session:
        raise CommandRejected("there is no session here, so nothing was accepted.", code="session_unknown")
    options = EngineOptions(interactive=False, watch=False, preload=False, private=False, trust=arguments.trust)
    open_client = open_to_read if is_reading else resume_session
    engine, events = await open_client(arguments.directory, session, options), list[ev.AnyEvent]()
    view = SessionView(engine, session, lambda envelope: events.append(envelope.event))
    try:
        await view.settle()
        yield SessionChanges(engine, view, events, session)
    finally:
        await view.close()
        await engine.close()


@dataclass
class SessionChanges:
    """One session of an engine, and its events so far."""

    engine: Client
    view: SessionView
    _events: list[ev.AnyEvent]
    session: str

    @property
    def state(self) -> SessionState:
        """The state of the session."""
        return self.view.state

    async def carry_out(self, command: cmd.AnyCommand) -> None:
        """Send a command, and wait until its effects have been seen; failures are events. Raises `CommandRejected`."""
        require_ack(await self.engine.submit(command))
        await self.view.settle()

    async def submit(self, command: cmd.AnyCommand, kind: type[ev.AnyEvent], *, count: int = 1) -> list[ev.AnyEvent]:
        """Send a command. Returns its events of the kind once there are `count`, or the failure that came instead."""
        start = len(self._events)
        require_ack(await self.engine.submit(command))

        def list_ends() -> list[ev.AnyEvent]:
            ends = (kind, ev.CommitFailed, ev.ErrorRaised)
            return [event for event in self._events[start:] if isinstance(event, ends)]

        await self.view.wait_until(
            lambda: len(list_ends()) >= count or any(not isinstance(end, kind) for end in list_ends())
        )
        return list_ends()

    def refuse(self, arguments: ChangesArguments, answer: q.Answer, message: str, hint: str) -> int:
        """Print why there is nothing to do; return the exit code."""
        if arguments.json:
            print_json(answer)
        else:
            print_notice(f"agent-tui: {message} {hint}".rstrip())
        return ExitCode.FAILED

    def report(self, arguments: ChangesArguments, ends: Sequence[ev.AnyEvent]) -> int:
        """Print the results of a command; return the exit code."""
        code: int = ExitCode.DONE
        for event in ends:
            if arguments.json:
                print_json(event)
            match event:
                case ev.CommitMade():
                    branch = event.branch or "detached HEAD"
                    print_notice(
                        f"committed {event.id[:10]} on {branch}: {event.subject} ({count('file', len(event.files))})"
                    )
                    if event.problem:
                        print_notice(f"agent-tui: {event.problem}")
                case ev.PullRequestOpened():
                    print_notice(f"pushed    {event.branch}{f': {event.url}' if event.url else ''}")
                case ev.CommitFailed():
                    sys.stderr.write(f"{escape_hidden(event.output)}\n" if event.output else "")
                    print_notice(f"agent-tui: {event.message} {event.hint}".rstrip())
                    code = ExitCode.FAILED if event.stage == "check" else ExitCode.REFUSED
                case ev.ErrorRaised():
                    print_notice(f"agent-tui: {event.message} {event.hint}".rstrip())
                    code = ExitCode.FAILED
                case _:
                    pass
        return code


def print_json(record: msgspec.Struct) -> None:
    """Print a record of the protocol as one line of JSON."""
    write_json(json.dumps(msgspec.to_builtins(record), ensure_ascii=False))


def print_notice(text: str) -> None:
    """Print one line for the user on standard error."""
    sys.stderr.write(f"{to_one_line(text)}\n")


def relate_path(name: str, directory: Path) -> str:
    """Return a path relative to the project; one outside of it is returned as it is."""
    path = resolve_spelled(Path.cwd() / name)
    return path.relative_to(directory).as_posix() if path.is_relative_to(directory) else name
