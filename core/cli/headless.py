"""`agent-tui -p`: one prompt, no screen. The answer goes to standard output, everything else to standard error.

Nobody can be asked, so what needs an approval is refused by the program. Edits wait for a review unless `--accept
all`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from math import ceil
from pathlib import Path
from typing import TextIO

from core.cli.arguments import Options
from core.cli.printer import JsonPrinter, Printer, StreamPrinter, TextPrinter
from core.clock import monotonic, now_ms, pause
from core.engine import Engine
from core.engine.models import ModelAccess
from core.errors import ConfigError
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import ErrorDocument
from core.protocol.renames import list_changes
from core.state.turns import TurnState
from core.transports.response import build_refusal, build_response, list_pending_bulks
from core.transports.startup import build_engine_options

MAX_STDIN = 16 * 1024 * 1024
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def run_print(options: Options, *, models: ModelAccess | None = None) -> int:
    """Run one prompt and print the answer. Returns the exit code; `BrokenPipeError` when nobody reads it any more."""
    prompt = read_prompt(options, sys.stdin)
    engine = Engine(
        options.directory, options=build_engine_options(options, interactive=False, watch=False), models=models
    )
    return asyncio.run(_PrintRun(engine, options, prompt).run())


def read_prompt(options: Options, stdin: TextIO | None) -> str:
    """Return the prompt of the command line; what is piped in is its context, or the prompt if there is no other."""
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
        if REPLACEMENT in piped and (bad := _find_bad_byte(data)) >= 0:
            sys.stderr.write(
                f"! standard input is not UTF-8 (byte {bad}): what could not be read became {REPLACEMENT}.\n"
            )
    if not piped.strip():
        return said
    return f"{said}\n\n<stdin>\n{piped.rstrip()}\n</stdin>" if said else piped.strip()


def _find_bad_byte(data: bytes) -> int:
    """Return the place of the first byte that is not UTF-8, -1 = there is none."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        return problem.start
    return -1


def _to_absolute(path: str) -> str:
    """Return a path from the directory in which the program was started, which need not be the project's."""
    return str(Path(path).expanduser().absolute())


def _build_printer(options: Options, out: TextIO, err: TextIO) -> Printer:
    match options.output_format:
        case "text":
            return TextPrinter(out, err)
        case "json":
            return JsonPrinter(out, err)
        case "stream-json":
            return StreamPrinter(out, err)


class _PrintRun:
    """Runs one prompt through an engine of this process."""

    def __init__(self, engine: Engine, options: Options, prompt: str) -> None:
        self._options = options
        self._prompt = prompt
        self._printer = _build_printer(options, sys.stdout, sys.stderr)
        self._engine = engine
        self._session = ""
        self._interrupts = 0
        self._counting: asyncio.Task[None] | None = None
        self._labels: tuple[str, ...] = ()

    @property
    def _is_resumed(self) -> bool:
        return bool(self._options.resume or self._options.continue_last)

    async def run(self) -> int:
        try:
            return await self._run()
        finally:
            await self._engine.close()

    async def _run(self) -> int:
        if not self._prompt:
            return self._print_refusal(cmd.Reject(code="empty_text", message="the prompt is empty."))
        opened = await self._open()
        if isinstance(opened, cmd.Reject):
            return self._print_refusal(opened)
        self._session = opened.session
        for command in self._list_changes():
            reply = await self._engine.submit(command)
            if isinstance(reply, cmd.Reject):
                return self._print_refusal(reply)
        await self._engine.wait_idle(self._session)
        if (refused := await self._attach()) is not None:
            return self._print_refusal(refused)
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._interrupt)
        following = asyncio.create_task(
            self._follow(opened.seq - self._is_resumed)
        )  # `session.resumed` says what was mended
        try:
            await asyncio.sleep(0)  # the events are being followed before the turn can begin
            reply = await self._engine.submit(self._build_submit())
            if isinstance(reply, cmd.Reject):
                return self._print_refusal(reply)
            return await self._finish(refused=await following)
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
            following.cancel()
            self._stop_count_down()

    def _build_submit(self) -> cmd.TurnSubmit:
        return cmd.TurnSubmit(session=self._session, text=self._prompt, attachments=self._labels)

    async def _attach(self) -> cmd.Reject | None:
        """Attach what `--image` names. Returns the rejection; None = all of it was attached."""
        for each in self._options.images:
            if each == "-":
                data = await asyncio.to_thread(sys.stdin.buffer.read, cmd.MAX_ATTACHMENT_BYTES + 1)
                add = cmd.AttachmentAdd(session=self._session, data=data, name="standard input")
            else:
                add = cmd.AttachmentAdd(session=self._session, path=_to_absolute(each))
            reply = await self._engine.submit(add)
            if isinstance(reply, cmd.Reject):
                return reply
            await self._engine.wait_idle(self._session)
            self._labels += (next(reversed(self._engine.state(self._session).attachments)),)
        return None

    async def _open(self) -> cmd.Reply:
        options = self._options
        if self._is_resumed:
            return await self._engine.submit(cmd.SessionResume(session=options.resume or ""))
        model, effort = options.model or "", options.effort or ""
        return await self._engine.submit(cmd.SessionOpen(mode=options.mode or "agent", model=model, effort=effort))

    def _list_changes(self) -> list[cmd.AnyCommand]:
        """Return the commands for options that differ from a resumed session."""
        options, found = self._options, list[cmd.AnyCommand]()
        if not self._is_resumed:
            return found
        if options.mode is not None:
            found.append(cmd.ModeSet(session=self._session, mode=options.mode))
        if options.model is not None:
            found.append(cmd.ModelSet(session=self._session, model=options.model))
        if options.effort is not None:
            found.append(cmd.EffortSet(session=self._session, effort=options.effort))
        return found

    def _interrupt(self) -> None:
        """Interrupt the turn at the first Ctrl+C (or SIGTERM, SIGHUP); the third one does not wait for it."""
        self._interrupts += 1
        if self._interrupts >= 3:
            raise KeyboardInterrupt
        task = asyncio.create_task(self._engine.submit(cmd.TurnInterrupt(session=self._session)))
        task.add_done_callback(lambda done: done.exception())

    async def _follow(self, after: int) -> bool:
        """Print events until the turn ends. Returns True if something was refused since nobody could be asked."""
        refused = False
        stream = self._engine.events(self._session, after=after)
        async with contextlib.aclosing(stream):
            async for envelope in stream:
                self._stop_count_down()
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
        """Print once a second how much of a wait is left."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            self._printer.count_down(ceil(left))
            await pause(min(left, 1.0))

    def _stop_count_down(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            self._counting = None

    async def _finish(self, *, refused: bool) -> int:
        state = self._engine.state(self._session)
        turn = state.turns[-1]
        before = {change.path for change in list_changes(state.changes)}  # a rename is its new path
        if self._options.accept == "all" and turn.reason == "done" and before:
            await self._accept_all()
        accepted = tuple(sorted(before - set(state.changes)))
        self._printer.end(build_response(turn, state, accepted=accepted))
        if state.is_private:
            await self._keep_pending()
        if not self._is_resumed and _lacks_key(turn):  # nothing to go on with, and `-c` would open it
            await self._engine.discard(self._session)
        match turn.reason:
            case "done":
                left = self._options.accept == "all" and bool(state.changes or list_pending_bulks(state))
                return ExitCode.REFUSED if refused or left else ExitCode.DONE
            case "limit":
                return ExitCode.LIMIT
            case "interrupted":
                return ExitCode.INTERRUPTED
            case _:
                return ExitCode.FAILED

    async def _keep_pending(self) -> None:
        """Keep what waits for a review without the conversation: it is work that nobody could be asked about."""
        said = "! Private: nothing of the conversation is kept."
        if self._engine.state(self._session).changes:
            reply = await self._engine.submit(cmd.PendingKeep(session=self._session))
            what = "What waits for your review is, without the conversation: agent-tui review"
            said += f" {reply.message if isinstance(reply, cmd.Reject) else what}"
        sys.stderr.write(f"{said}\n")

    async def _accept_all(self) -> None:
        """Accept all edits and print what went wrong."""
        state = self._engine.state(self._session)
        before = state.seq
        await self._engine.submit(cmd.HunkResolve(session=self._session, path="", verdict="accept"))
        await self._engine.wait_idle(self._session)
        if state.seq > before:
            async with contextlib.aclosing(self._engine.events(self._session, after=before)) as stream:
                async for envelope in stream:
                    self._printer.event(envelope)
                    if envelope.seq >= state.seq:
                        return

    def _print_refusal(self, reply: cmd.Reject) -> int:
        mode = self._options.mode or "agent"
        model = self._options.model or ""
        self._printer.end(
            build_refusal(reply.code, reply.message, hint=reply.hint, model=model, mode=mode, at=now_ms())
        )
        return ExitCode.FAILED


def _lacks_key(turn: TurnState) -> bool:
    """True if a turn ended for want of a key, before anything was sent."""
    said = turn.list_finished_documents()
    return bool(said) and all(
        isinstance(each, ErrorDocument) and each.metadata.error_code == "KEY_MISSING" for each in said
    )
