"""Loops: a prompt that the program sends again, after an interval or when a command prints something.

A loop lasts as long as its session is open. It never interrupts: its turn waits until the running one has ended and the
user has answered what was asked. Stopping a turn of a loop stops the loop.
"""

from __future__ import annotations

import asyncio
from typing import Final

from core.agent.base.prompt_tags import escape_tags
from core.agent.context.turn_context import TurnOrigin
from core.clock import monotonic, pause
from core.engine.commands.turns import check_text, prepare_submit
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.errors import AgentTuiError, CommandRejected
from core.prompts import render
from core.protocol import commands as cmd
from core.protocol.events import LoopEnd, LoopEnded, LoopStarted, Notice, QuestionAnswered
from core.protocol.review import Origin
from core.sandbox.results import describe_end
from core.state.live_text import append_piece
from core.state.loops import DEFAULT_RUNS, MAX_RUNS, MAX_SECONDS, MIN_SECONDS, LoopState, describe_loop
from core.state.session import TurnState
from core.text.lines import clip

TOOL: Final = "monitor"  # the origin of a command that is watched
MAX_LOOPS: Final = 10  # of one session
MAX_FAILURES: Final = 3  # turns in a row that fail until the loop ends
MAX_LINES: Final = 20  # lines of output that are sent with one prompt
MAX_LINE: Final = 500  # characters
MAX_BUFFER: Final = 64_000  # characters of a line that has not ended
STOPPED: Final = "You stopped it."


async def prepare_loop_start(session: Session, command: cmd.LoopStart) -> Effect:
    """Check a loop and return the effect that starts it. Raises `CommandRejected`."""
    check_text(command.text, "prompt")
    if command.pattern and not command.command:
        raise CommandRejected("there is no command to watch.", hint="Add --when COMMAND.", code="loop_invalid")
    if not MIN_SECONDS <= command.seconds <= MAX_SECONDS:
        raise CommandRejected("the interval is from 10 seconds to 7 days.", code="loop_invalid")
    if len(session.state.loops) >= MAX_LOOPS:
        raise CommandRejected(f"{MAX_LOOPS} loops run already.", hint="/loop stop ends them.", code="too_many_loops")
    if command.command and await session.terminal.host.box.find() is None:
        raise CommandRejected("commands can't be sandboxed on this machine, so none can be watched.", code="no_box")

    def start() -> None:
        event = LoopStarted(
            id=f"loop_{session.state.loop_count + 1}",
            prompt=command.text,
            seconds=command.seconds,
            command=command.command,
            pattern=command.pattern,
            max_runs=min(command.runs or DEFAULT_RUNS, MAX_RUNS),
        )
        session.emit_outside_turn(event)
        session.tasks.start_loop(event.id, _Loop(session, event).run)

    return start


def prepare_loop_stop(session: Session, command: cmd.LoopStop) -> Effect:
    """End one loop, or all of them."""
    names = [command.id] if command.id else list(session.state.loops)
    if not names or command.id not in {"", *session.state.loops}:
        hint = f"The loops are: {', '.join(session.state.loops)}." if session.state.loops else ""
        raise CommandRejected("there is no such loop." if hint else "no loop runs.", hint=hint, code="no_loop")

    def stop() -> None:
        for name in names:
            if name in session.state.loops:
                session.tasks.end_loop(name)
                session.emit_outside_turn(LoopEnded(id=name, reason="stopped", message=STOPPED))

    return stop


class _Loop:
    """One loop. Its task sends the prompt, and waits for the end of the turn and of the interval."""

    def __init__(self, session: Session, event: LoopStarted) -> None:
        self._session, self._event = session, event
        self._monitor = _Monitor(session, event)

    async def run(self) -> None:
        """Run the loop to its end, which it emits unless it is cancelled."""
        watching = asyncio.create_task(self._monitor.run()) if self._event.command else None
        try:
            reason, message = await self._repeat(watching)
        except AgentTuiError as problem:
            reason, message = "failed", problem.format_with_hint()
        finally:
            if watching is not None:
                watching.cancel()
        self._session.emit_outside_turn(LoopEnded(id=self._event.id, reason=reason, message=message))

    @property
    def _state(self) -> LoopState:
        return self._session.state.loops[self._event.id]

    async def _repeat(self, watching: asyncio.Task[None] | None) -> tuple[LoopEnd, str]:
        failures = 0
        while True:
            if watching is not None:
                await self._monitor.wait_for_lines(watching)
            started = monotonic()
            turn = await self._run_turn()
            if turn.reason == "interrupted":
                return "stopped", STOPPED
            failures = failures + 1 if turn.reason == "failed" else 0
            if failures >= MAX_FAILURES:
                return "failed", f"{MAX_FAILURES} turns in a row have failed."
            if self._state.runs >= self._event.max_runs:
                return "done", "It has run as often as it was to."
            await pause(max(0.0, self._event.seconds - (monotonic() - started)))

    async def _run_turn(self) -> TurnState:
        """Send the prompt as soon as nothing else is going on, and return its turn when that has ended."""
        session = self._session
        while True:
            await self._wait_idle()
            lines = self._monitor.take_lines()
            submission = cmd.TurnSubmit(session=session.id, text=self._event.prompt, anyway=True)
            try:
                effect = await prepare_submit(session, submission, self._build_origin(lines))
            except CommandRejected as rejection:
                if rejection.code != "turn_running":
                    raise
                self._monitor.return_lines(lines)
                continue
            session.tasks.schedule(effect)
            await session.turn_slot.wait_free()
            return session.state.turns[-1]

    def _build_origin(self, lines: tuple[str, ...]) -> TurnOrigin:
        event = self._event
        reminder = render(
            "reminders/loop",
            when=escape_tags(describe_loop(event)),
            run=self._state.runs + 1,
            most=event.max_runs,
            command=escape_tags(event.command),
            lines=escape_tags("\n".join(lines)),
        )
        return TurnOrigin(cause="loop", loop=event.id, reminder=reminder)

    async def _wait_idle(self) -> None:
        """Wait until no turn runs and no question is open."""
        session, answered = self._session, asyncio.Event()
        listener = ((QuestionAnswered,), lambda _: answered.set())
        session.recorder.listeners.append(listener)
        try:
            while session.turn_slot.is_running or session.state.questions:
                answered.clear()
                if session.turn_slot.is_running:
                    await session.turn_slot.wait_free()
                else:
                    await answered.wait()
        finally:
            session.recorder.listeners.remove(listener)


class _Monitor:
    """Runs the command of a loop again and again, and collects the lines that the loop waits for.

    A command that goes on (`tail -f`) has news with every such line, one that ends (`gh run list`) with those that its
    run before did not print."""

    def __init__(self, session: Session, event: LoopStarted) -> None:
        self._session, self._event = session, event
        self._text = ""
        self._lines: list[str] = []
        self._seen: set[str] = set()
        self._known: frozenset[str] = frozenset()  # lines of the run before
        self._last = ""
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Run the command until cancelled. Raises `AgentTuiError` if it can't be started."""
        event, has_reported = self._event, False
        origin = Origin(call=event.id, tool=TOOL, command=event.command)
        while True:
            box_result = await self._session.terminal.watch_command(event.command, origin, self._feed)
            self._take_line(self._text)
            if box_result.exit_code != 0 and not self._seen and not has_reported:
                has_reported = True
                end = describe_end(box_result.exit_code, box_result.end_reason)
                message = f"{event.id}: `{event.command}` ended ({end}) without such a line. It is run again."
                self._session.emit_outside_turn(Notice(level="info", message=message, hint=self._last))
            self._text, self._known, self._seen = "", frozenset(self._seen), set()
            await pause(event.seconds)

    def _feed(self, piece: str) -> None:
        *lines, self._text = append_piece(self._text, piece).split("\n")
        for line in lines:
            self._take_line(line)
        self._text = self._text[-MAX_BUFFER:]

    def _take_line(self, line: str) -> None:
        line = clip(line.strip(), MAX_LINE)
        self._last = line or self._last
        if not line or self._event.pattern not in line:
            return
        self._seen.add(line)
        if line not in self._known:
            self._lines = [*self._lines, line][-MAX_LINES:]
            self._news.set()

    async def wait_for_lines(self, watching: asyncio.Task[None]) -> None:
        """Wait for a line. Raises the error that has ended the command's task."""
        waiting = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({waiting, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if watching.done():
            watching.result()

    def take_lines(self) -> tuple[str, ...]:
        """Return the lines since the last call."""
        lines, self._lines = tuple(self._lines), []
        self._news.clear()
        return lines

    def return_lines(self, lines: tuple[str, ...]) -> None:
        """Take back lines that were not sent."""
        self._lines = [*lines, *self._lines][-MAX_LINES:]
        if self._lines:
            self._news.set()
