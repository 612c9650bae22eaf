"""`agent-tui box run`: run one command as the agent's terminal runs it, and report its effects.

The command's output goes to standard output and standard error as it comes, byte for byte unless that is a terminal.
The report follows on standard error or goes to a file. The exit status is the command's.

With --keep the effects wait for a review in a session of the workspace that is reserved for it; otherwise they are
dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TextIO

from core.arguments import Arguments, Front
from core.cli.parsing import MODES, ModeName, build_parser, parse_directory, parse_seconds
from core.engine import Engine, EngineOptions
from core.engine.shared.box import SharedBox
from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.renames import list_changes
from core.protocol.review import Bulk, Change, Origin
from core.sandbox.box import BoxLimits, Tier
from core.sandbox.plain_text import PlainTextStream
from core.sandbox.results import CommandResult
from core.sessions.store import SessionStore
from core.shell.command_host import CommandRequest
from core.shell.shell_state import replace_undecodable
from core.state.session import SessionState
from core.text.counting import format_size
from core.text.display_names import display_name, expose_controls, to_one_line
from core.transports.session_client import SessionView

TIERS = ("T1", "T2a", "T2b", "T2c", "T3", "M1", "container")

BOX_USAGE = "agent-tui box run [--mode MODE] [--tier TIER] [--timeout SECONDS] [--keep] [--report FILE] DIR COMMAND"

BOX_TEXT = """\
Run one shell command in DIR exactly as the agent would: sandboxed, without
network or input, on top of the pending changes. Its standard output and standard
error are passed through; control characters are removed only in a terminal.
Then, on standard error or in the file of --report, come the tier and what the
command did, one per line:

  created, edited, mode, deleted   files that would go to review
  generated, git                   ignored files and the state of git, as a whole
  dropped, note                    what can't be kept, and why

The changes are dropped and DIR stays as it is. With --keep they go to review,
and the next command with --keep sees them: agent-tui review DIR."""

BOX_CODES = """\
exit codes:
  0-123   the command's own (also 126 not executable, 127 not found, and
          128 + N when signal N ended it)
  2       also: wrong arguments; nothing was started
  124     timed out (--timeout)
  125     not run, or ended by the sandbox: no such sandbox, no space, no state
  130     interrupted from the keyboard (Ctrl+C)"""


TIMED_OUT = 124
NOT_RUN = 125
INTERRUPTED = 130
POINTER = "box-session"
_ENDS = {
    "timed_out": "it timed out",
    "flooded": f"it wrote more than {BoxLimits().output >> 20} MB",
    "out_of_memory": "it used too much memory",
    "disk_full": "there was no space for what it wrote",
    "lost": "the sandbox ended before the command did",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxArguments(Arguments):
    """`timeout` in seconds. `keep`: what the command changes waits for a review. `report` None: standard error."""

    front: ClassVar[Front] = "box"
    command: str
    mode: ModeName = "agent"
    tier: str | None = None
    timeout: int = 600
    keep: bool = False
    report: Path | None = None


def parse(argv: Sequence[str]) -> BoxArguments:
    """Parse the arguments of `agent-tui box`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui box run", BOX_USAGE, BOX_TEXT, BOX_CODES)
    parser.add_argument("words", nargs="*", metavar="DIR COMMAND", help="the project, and the command in quotes")
    parser.add_argument("--mode", choices=MODES, default="agent", help="plan and ask keep nothing (default: agent)")
    parser.add_argument("--tier", choices=TIERS, help="only this kind of sandbox (default: the strongest available)")
    parser.add_argument("--timeout", type=parse_seconds, default=600, metavar="SECONDS", help="default: 600")
    parser.add_argument("--report", metavar="FILE", help="write the report there (default: standard error)")
    parser.add_argument("--keep", action="store_true", help="send its changes to review")
    if argv and argv[0] != "run" and argv[0] not in {"-h", "--help"}:
        parser.error(f"the only action of box is run; usage: {BOX_USAGE}")
    args = parser.parse_intermixed_args([word for word in argv[:1] if word != "run"] + list(argv[1:]))
    if len(args.words) != 2 or not args.words[1].strip():
        parser.error("expected a directory and one command in quotes, such as: agent-tui box run . 'make test'")
    return BoxArguments(
        directory=parse_directory(args.words[:1], parser),
        command=args.words[1],
        mode=args.mode,
        tier=args.tier,
        timeout=args.timeout,
        keep=args.keep,
        report=Path(args.report).absolute() if args.report else None,
    )


def run(arguments: BoxArguments) -> int:
    """Run the command. Returns an exit status that `BOX_CODES` documents."""
    return asyncio.run(_BoxRun(arguments).run())


class _BoxRun:
    def __init__(self, arguments: BoxArguments) -> None:
        self._arguments = arguments
        self._out, self._errors = _OutputStream(sys.stdout), _OutputStream(sys.stderr)
        tier = Tier(arguments.tier) if arguments.tier else None
        self._boxes = SharedBox(required_tier=tier)
        private = False if arguments.keep else None
        options = EngineOptions(mode=arguments.mode, interactive=False, watch=False, preload=False, private=private)
        self._engine = Engine(arguments.directory, options=options, boxes=self._boxes)

    async def run(self) -> int:
        try:
            return await self._run_in_box()
        except AgentTuiError as problem:
            return _report_not_run(problem.format_with_hint())
        finally:
            await self._engine.close()

    async def _run_in_box(self) -> int:
        if await self._boxes.find() is None:
            event = self._boxes.build_event()
            reason = f": {event.reason.rstrip('.')}." if event.reason else "."
            return _report_not_run(f"no sandbox here{reason} {event.cure}".rstrip())
        session = await self._open()
        if isinstance(session, cmd.Reject):
            return _report_not_run(f"{session.message} {session.hint}".rstrip())
        try:
            return await self._run_command(session.session)
        finally:
            if not self._arguments.keep:
                await self._engine.submit(cmd.SessionClose(session=session.session, discard=True))

    async def _open(self) -> cmd.Reply:
        store = SessionStore(self._arguments.directory)
        session_id = find_box_session(store) if self._arguments.keep else ""
        mode = self._arguments.mode
        if not session_id:
            open_reply = await self._engine.submit(cmd.SessionOpen(mode=mode))
            if self._arguments.keep and isinstance(open_reply, cmd.Ack):
                rename = cmd.SessionRename(session=open_reply.session, title="Sandboxed commands")
                await self._engine.submit(rename)
                (store.path / POINTER).write_text(open_reply.session, encoding="ascii")
            return open_reply
        resume_reply = await self._engine.submit(cmd.SessionResume(session=session_id))
        if isinstance(resume_reply, cmd.Ack):
            await self._engine.submit(cmd.ModeSet(session=session_id, mode=mode))
        return resume_reply

    async def _run_command(self, session: str) -> int:
        terminal = self._engine.terminal(session)
        effects_by_call: dict[str, ev.EffectsRecorded] = {}

        def record_effects(envelope: ev.Envelope) -> None:
            if isinstance(envelope.event, ev.EffectsRecorded):
                effects_by_call[envelope.event.call] = envelope.event

        view = SessionView(self._engine, session, record_effects)
        await view.settle()
        known_changes, bulks = dict(view.state.changes), view.state.review.bulks
        order = CommandRequest(
            command=self._arguments.command,
            origin=Origin(call=new_id("user"), tool="user_command", command=self._arguments.command),
            keeps_effects=terminal.keeps_effects(),
            time_limit=float(self._arguments.timeout),
            is_raw=True,
            on_stderr=self._errors.write,
        )
        running = asyncio.ensure_future(terminal.run(order, self._out.write))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, running.cancel)
        try:
            result = await running
        except asyncio.CancelledError:
            await terminal.close()
            sys.stderr.write("agent-tui: interrupted; the command's changes were dropped.\n")
            return INTERRUPTED
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        await view.settle()
        await view.close()
        if (effects := effects_by_call.get(order.origin.call)) is None:
            raise AgentTuiError("The sandbox did not report what the command did.")
        self._report(result, _list_effects(known_changes, bulks, view.state, effects))
        return _to_exit_status(result)

    def _report(self, result: CommandResult, effects: list[str]) -> None:
        self._out.finish()
        self._errors.finish()
        event = self._boxes.build_event()
        lines = [f"{'sandbox':<11}{event.tier}{f' ({_one_line(event.reason)})' if event.reason else ''}"]
        if result.ended != "exited":
            lines.append(f"{'ended':<11}{_ENDS.get(result.ended, result.ended)} ({result.duration_ms / 1000:.1f} s)")
        lines += [f"{'note':<11}{_one_line(note)}" for note in result.notes]
        lines += [f"{'note':<11}{_one_line(self._out.failure)}"] if self._out.failure else []
        lines += effects or [f"{'effects':<11}none"]
        self._write_report("".join(f"{line}\n" for line in lines))

    def _write_report(self, report: str) -> None:
        """Write the report to its file, which separates it from the command's standard error, or to standard error."""
        if self._arguments.report is None:
            self._errors.begin_line()
            self._errors.write(report)
            return
        try:
            self._arguments.report.write_text(report, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            sys.stderr.write(f"agent-tui: the report could not be written: {error.strerror}\n")


def find_box_session(store: SessionStore) -> str:
    """Return the session of `box run --keep` in a workspace, "" = there is none."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        session = (store.path / POINTER).read_text(encoding="ascii").strip()
        return session if store.has_session(session) else ""
    return ""


def _list_effects(
    known_changes: Mapping[str, Change], bulks: Sequence[Bulk], state: SessionState, effects: ev.EffectsRecorded
) -> list[str]:
    """Return a line for every effect of the command; `known_changes` and `bulks` were pending before it."""
    if effects.discarded:
        return ["discarded  all its changes", *(f"{'note':<11}{_one_line(note)}" for note in effects.notes)]
    lines: list[str] = []
    for change in list_changes(state.changes):
        before = known_changes.get(change.path)
        if before is None or before.pending != change.pending:
            lines += _format_change(change, before)
    undone = sorted(set(known_changes) - set(state.changes))
    lines += [f"{'undone':<11}{_escape_path(path)} (as it is in the project)" for path in undone]
    lines += [format_bulk(bulk, _escape_path(bulk.root)) for bulk in state.review.bulks if bulk not in bulks]
    return lines + [f"{'dropped':<11}{_one_line(note)}" for note in effects.notes]


def _format_change(change: Change, before: Change | None) -> list[str]:
    words = {"create": "created", "edit": "edited", "delete": "deleted", "rename": "renamed"}
    remarks = ["again"] if before is not None else []
    remarks += ["protected"] if change.protected else []
    remarks += [f"conflict: {_one_line(change.conflict)}"] if change.conflict else []
    suffix = f" ({'; '.join(remarks)})" if remarks else ""
    name = _escape_path(change.path)
    label = f"{_escape_path(change.renamed_from)} -> {name}" if change.renamed_from else name
    lines = [f"{words[change.operation]:<11}{label}{suffix}"] if change.operation in words else []
    if change.operation in {"mode", "edit"} and change.base.mode != change.pending.mode:
        lines.append(f"{'mode':<11}{name} {change.base.mode:04o} -> {change.pending.mode:04o}")
    return lines or [f"{'edited':<11}{name}{suffix}"]


def format_bulk(bulk: Bulk, name: str) -> str:
    """Format a bulk as `generated node_modules (1,203 files, 34.1 MB)`; `name`: its root, ready for display."""
    deletions = f", {bulk.deleted:,} deleted" if bulk.deleted else ""
    stale = f"; may be stale: {_one_line(bulk.stale)}" if bulk.stale else ""
    return f"{bulk.kind:<11}{name} ({bulk.files:,} files, {format_size(bulk.bytes)}{deletions}{stale})"


def _escape_path(path: str) -> str:
    """Escape a path for a report that programs read, too: as `_one_line` does, with look-alike characters marked."""
    blanks = len(path) - len(path.rstrip(" "))
    name = " ".join(display_name(part) for part in _one_line(path[: len(path) - blanks]).split(" "))
    return name + "\\x20" * blanks


def _one_line(line: str) -> str:
    """Escape control characters and newlines, so that no name can forge a line of the report. Backslashes are
    doubled."""
    return expose_controls("".join(map(_escape, line)))


def _escape(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


class _OutputStream:
    """Standard output or error. A terminal gets plain text, a pipe or file the exact bytes.

    When its reader is gone, the command continues, and its effects are still reported.
    """

    def __init__(self, stream: TextIO) -> None:
        self.failure = ""
        self._plain = PlainTextStream() if stream.isatty() else None
        self._stream = stream
        self._in_line = False

    def begin_line(self) -> None:
        if self._in_line:
            self.write("\n")

    def finish(self) -> None:
        """Flush the rest of the plain text; the command writes no more."""
        if self._plain is not None:
            self._put(self._plain.finish())

    def write(self, text: str) -> None:
        self._put(text if self._plain is None else self._plain.feed(replace_undecodable(text)))

    def _put(self, text: str) -> None:
        self._in_line = not text.endswith("\n") if text else self._in_line
        try:
            self._stream.buffer.write(text.encode("utf-8", "surrogateescape"))
            self._stream.buffer.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.failure = f"its output could not be written completely: {error.strerror}"
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # the rest of the buffer goes there, too
            os.close(nowhere)


def _report_not_run(reason: str) -> int:
    sys.stderr.write(f"agent-tui: not run: {to_one_line(reason)}\n")
    return NOT_RUN


def _to_exit_status(result: CommandResult) -> int:
    if result.ended == "timed_out":
        return TIMED_OUT
    return NOT_RUN if result.exit_code is None else result.exit_code
