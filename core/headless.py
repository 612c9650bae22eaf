"""`agent-tui -p`: one prompt, no screen. The answer goes to standard output, everything else to standard error.

Nobody can be asked, so what needs an approval is refused by the program. Edits wait for a review unless `--accept all`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from math import ceil
from pathlib import Path
from typing import TextIO

from core.cli import Options
from core.clock import monotonic, now_ms, pause
from core.engine import Engine
from core.engine.models import ModelAccess
from core.errors import ConfigError
from core.exits import ExitCode
from core.printer import JsonPrinter, Printer, StreamPrinter, TextPrinter
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import ErrorDocument
from core.protocol.moves import listed
from core.response import refusal, response_of, waiting_bulks
from core.sessions.turns import TurnState
from core.transports.startup import engine_options

MAX_STDIN = 16 * 1024 * 1024
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REPLACED = "\N{REPLACEMENT CHARACTER}"


def run_print(options: Options, *, models: ModelAccess | None = None) -> int:
    """Run one prompt and print the answer. Returns the exit code; `BrokenPipeError` when nobody reads it any more."""
    prompt = prompt_of(options, sys.stdin)
    engine = Engine(options.directory, options=engine_options(options, interactive=False, watch=False), models=models)
    return asyncio.run(_Run(engine, options, prompt).go())


def prompt_of(options: Options, stdin: TextIO | None) -> str:
    """The prompt of the command line; what is piped in is its context, or the prompt itself if there is no other."""
    said = (options.prompt or "").strip()
    piped = ""
    if "-" not in options.images and stdin is not None and not stdin.closed and not stdin.isatty():
        data = stdin.buffer.read(MAX_STDIN + 1)
        if len(data) > MAX_STDIN:
            raise ConfigError(
                f"standard input holds more than {MAX_STDIN // 2**20} MB.",
                hint="Put it into a file and name the file in the prompt.",
                code="stdin_too_large",
            )
        piped = data.decode("utf-8", "replace")
        if REPLACED in piped and (bad := _bad_byte(data)) >= 0:
            sys.stderr.write(f"! standard input is not UTF-8 (byte {bad}): what could not be read became {REPLACED}.\n")
    if not piped.strip():
        return said
    return f"{said}\n\n<stdin>\n{piped.rstrip()}\n</stdin>" if said else piped.strip()


def _bad_byte(data: bytes) -> int:
    """The place of the first byte that is not UTF-8, -1 = there is none."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        return problem.start
    return -1


def _absolute(path: str) -> str:
    """From the directory in which the program was started, which need not be the project's."""
    return str(Path(path).expanduser().absolute())


def _printer(options: Options, out: TextIO, err: TextIO) -> Printer:
    match options.output_format:
        case "text":
            return TextPrinter(out, err)
        case "json":
            return JsonPrinter(out, err)
        case "stream-json":
            return StreamPrinter(out, err)


class _Run:
    """One prompt through an engine of this process."""

    def __init__(self, engine: Engine, options: Options, prompt: str) -> None:
        self._options = options
        self._prompt = prompt
        self._printer = _printer(options, sys.stdout, sys.stderr)
        self._engine = engine
        self._session = ""
        self._interrupts = 0
        self._counting: asyncio.Task[None] | None = None
        self._labels: tuple[str, ...] = ()

    @property
    def _resumed(self) -> bool:
        return bool(self._options.resume or self._options.continue_last)

    async def go(self) -> int:
        try:
            return await self._go()
        finally:
            await self._engine.close()

    async def _go(self) -> int:
        if not self._prompt:
            return self._refused(cmd.Reject(code="empty_text", message="the prompt is empty."))
        opened = await self._open()
        if isinstance(opened, cmd.Reject):
            return self._refused(opened)
        self._session = opened.session
        for command in self._changes():
            reply = await self._engine.submit(command)
            if isinstance(reply, cmd.Reject):
                return self._refused(reply)
        await self._engine.settled(self._session)
        if (refused := await self._attach()) is not None:
            return self._refused(refused)
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self._interrupt)
        following = asyncio.create_task(
            self._follow(opened.seq - self._resumed)
        )  # `session.resumed` says what was mended
        try:
            await asyncio.sleep(0)  # the events are being followed before the turn can begin
            reply = await self._engine.submit(self._submit())
            if isinstance(reply, cmd.Reject):
                return self._refused(reply)
            return await self._finish(refused=await following)
        finally:
            for number in ENDING:
                loop.remove_signal_handler(number)
            following.cancel()
            self._end_count()

    def _submit(self) -> cmd.TurnSubmit:
        return cmd.TurnSubmit(session=self._session, text=self._prompt, attachments=self._labels)

    async def _attach(self) -> cmd.Reject | None:
        """Take in what `--image` names; why that can't be done, None = it was."""
        for each in self._options.images:
            if each == "-":
                data = await asyncio.to_thread(sys.stdin.buffer.read, cmd.MAX_ATTACHED + 1)
                add = cmd.AttachmentAdd(session=self._session, data=data, name="standard input")
            else:
                add = cmd.AttachmentAdd(session=self._session, path=_absolute(each))
            reply = await self._engine.submit(add)
            if isinstance(reply, cmd.Reject):
                return reply
            await self._engine.settled(self._session)
            self._labels += (next(reversed(self._engine.state(self._session).attached)),)
        return None

    async def _open(self) -> cmd.Reply:
        options = self._options
        if self._resumed:
            return await self._engine.submit(cmd.SessionResume(session=options.resume or ""))
        model, effort = options.model or "", options.effort or ""
        return await self._engine.submit(cmd.SessionOpen(mode=options.mode or "agent", model=model, effort=effort))

    def _changes(self) -> list[cmd.AnyCommand]:
        """What the command line says otherwise than a resumed session has it."""
        options, found = self._options, list[cmd.AnyCommand]()
        if not self._resumed:
            return found
        if options.mode is not None:
            found.append(cmd.ModeSet(session=self._session, mode=options.mode))
        if options.model is not None:
            found.append(cmd.ModelSet(session=self._session, model=options.model))
        if options.effort is not None:
            found.append(cmd.EffortSet(session=self._session, effort=options.effort))
        return found

    def _interrupt(self) -> None:
        """The first Ctrl+C (or SIGTERM, SIGHUP) ends the turn in good order, the third one does not wait for it."""
        self._interrupts += 1
        if self._interrupts >= 3:
            raise KeyboardInterrupt
        task = asyncio.create_task(self._engine.submit(cmd.TurnInterrupt(session=self._session)))
        task.add_done_callback(lambda done: done.exception())

    async def _follow(self, after: int) -> bool:
        """Print what happens until the turn ends. Returns whether something was refused since nobody could be asked."""
        refused = False
        stream = self._engine.events(self._session, after=after)
        async with contextlib.aclosing(stream):
            async for envelope in stream:
                self._end_count()
                self._printer.event(envelope)
                match envelope.event:
                    case ev.ApprovalResolved(by="program"):
                        refused = True
                    case ev.StepRetried(delay_ms=delay):
                        self._counting = asyncio.create_task(self._count_down(delay / 1000))
                    case ev.TurnFinished():
                        break
                    case _:
                        pass
        return refused

    async def _count_down(self, seconds: float) -> None:
        """Say once a second how much of a wait is left."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            self._printer.count_down(ceil(left))
            await pause(min(left, 1.0))

    def _end_count(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            self._counting = None

    async def _finish(self, *, refused: bool) -> int:
        state = self._engine.state(self._session)
        turn = state.turns[-1]
        before = {change.path for change in listed(state.changes)}  # a rename is its new path
        if self._options.accept == "all" and turn.reason == "done" and before:
            await self._accept_all()
        accepted = tuple(sorted(before - set(state.changes)))
        self._printer.end(response_of(turn, state, accepted=accepted))
        if state.private:
            await self._keep_pending()
        if not self._resumed and _lacked_key(turn):  # nothing to go on with, and `-c` would open it
            await self._engine.discard(self._session)
        match turn.reason:
            case "done":
                left = self._options.accept == "all" and bool(state.changes or waiting_bulks(state))
                return ExitCode.REFUSED if refused or left else ExitCode.DONE
            case "limit":
                return ExitCode.LIMIT
            case "interrupted":
                return ExitCode.INTERRUPTED
            case _:
                return ExitCode.FAILED

    async def _keep_pending(self) -> None:
        """What waits for a review is work that nobody could be asked about: it is kept without the conversation."""
        said = "! Private: nothing of the conversation is kept."
        if self._engine.state(self._session).changes:
            reply = await self._engine.submit(cmd.PendingKeep(session=self._session))
            what = "What waits for your review is, without the conversation: agent-tui review"
            said += f" {reply.message if isinstance(reply, cmd.Reject) else what}"
        sys.stderr.write(f"{said}\n")

    async def _accept_all(self) -> None:
        """Write the edits; what went wrong is printed."""
        state = self._engine.state(self._session)
        before = state.seq
        await self._engine.submit(cmd.HunkResolve(session=self._session, path="", verdict="accept"))
        await self._engine.settled(self._session)
        if state.seq > before:
            async with contextlib.aclosing(self._engine.events(self._session, after=before)) as stream:
                async for envelope in stream:
                    self._printer.event(envelope)
                    if envelope.seq >= state.seq:
                        return

    def _refused(self, reply: cmd.Reject) -> int:
        mode = self._options.mode or "agent"
        model = self._options.model or ""
        self._printer.end(refusal(reply.code, reply.message, hint=reply.hint, model=model, mode=mode, at=now_ms()))
        return ExitCode.FAILED


def _lacked_key(turn: TurnState) -> bool:
    """Whether a turn ended for want of a key, before anything was sent."""
    said = turn.finished_documents()
    return bool(said) and all(
        isinstance(each, ErrorDocument) and each.metadata.error_code == "KEY_MISSING" for each in said
    )
