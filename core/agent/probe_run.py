"""One run with probes: by a command that the gate's rules let through, or by the user, who follows steps.

What was logged comes to the screen while it goes on, and is stored at its end, whatever the end is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from core.agent.collector import Collector
from core.agent.debug_fix import OUTCOMES, PROCEED, VERDICTS, record, record_proof
from core.agent.execution import Order
from core.agent.probe_room import URL_PLACE, URL_VARIABLE, ProbeLayer, ProbeRoom, Tail, read_pieces
from core.agent.proving import refusal
from core.agent.session import SessionContext
from core.clock import monotonic
from core.debug.comparing import counts
from core.debug.records import OUTPUT, Log, read_log, written
from core.errors import ToolFailed
from core.ids import new_id
from core.protocol.debug import ASKED_TO_SHOW, ProbeRecord, ProbeRun
from core.protocol.documents import Question
from core.protocol.events import (
    ProbeLogged,
    QuestionAsked,
    ReproduceEnded,
    ReproduceRequested,
    RunRecorded,
    ToolOutput,
)
from core.protocol.events.debug import Reproduced
from core.protocol.review import Origin
from core.sandbox.box import Tier
from core.sandbox.order import PROXY_PORT
from core.sandbox.result import CommandResult
from core.tools.debugging import Reproduction, Shown
from core.tools.run_terminal_cmd import RunTerminalCmd

LONGEST = 600.0
LOOK = 0.2  # seconds between two looks at a log while a run goes on
LIVE = 500  # records that are shown while a run goes on
OUTPUT_LINES = 200  # lines of a command's output, its end, that become part of the log
LINE = 1_000
_CHOICES: dict[str, Reproduced] = {"proceed": "proceed", "fixed": "fixed", "broken": "broken"}


class _Came(Struct, frozen=True, kw_only=True):
    outcome: Reproduced
    result: CommandResult | None = None
    note: str = ""


class ProbeRunner:
    """Shows a fault once. `check_lease` raises when the call is over."""

    def __init__(self, session: SessionContext, origin: Origin, check_lease: Callable[[], None]) -> None:
        self._session = session
        self._origin = origin
        self._check = check_lease

    async def show(self, wanted: Reproduction) -> Shown:
        """All of it. `ToolFailed`: refused, or it could not begin; then there is no run."""
        session, state = self._session, self._session.state.debug
        if wanted.steps and not session.interactive:
            raise ToolFailed("Nobody can be asked in this session.", hint="Give a command that shows the fault.")
        if wanted.command:
            await self._agreed(wanted)
        begun = ProbeRun(
            id=f"r{state.run_count + 1}", command=wanted.command, ended="stopped", after_fix=self._has_fix()
        )
        room = self._room()
        collector = await self._collector(wanted, room.posted(begun.id))
        try:
            probes = tuple(state.probes.values())
            layer = room.open(begun.id, probes, session.shadow, self._url(collector), session.terminal.ground.box.tier)
        except BaseException:
            await self._stop(collector)
            raise
        begun = replace(begun, probes=len(probes) - len(layer.lost))
        session.emit(
            ReproduceRequested(run=begun.id, call=self._origin.call, command=wanted.command, steps=wanted.steps)
        )
        started, came = monotonic(), _Came(outcome="stopped")
        try:
            came = await self._live(wanted, begun.id, layer)
        finally:
            await self._stop(collector)
            log = read_log(chain(read_pieces(layer.log), [b"\n"], read_pieces(layer.posted)), begun.id, session.id)
            room.close(begun.id)
            begun = replace(begun, duration_ms=round((monotonic() - started) * 1000))
            recorded = self._store(begun, log, came)
            session.emit(ReproduceEnded(run=begun.id, outcome=came.outcome))
        return Shown(
            run=recorded,
            outcome=came.outcome,
            result=came.result,
            note=self._judged(came),
            lost=layer.lost,
            unseen=() if session.contained else tuple(state.fixes),
        )

    def _has_fix(self) -> bool:
        """Whether this run has in it what was changed on evidence. Without a box it sees the files on disk."""
        debug = self._session.state.debug
        return debug.is_mended and (self._session.contained or not debug.fixes)

    def _judged(self, came: _Came) -> str:
        """What the model hears of what the user said, of the fix too."""
        if (outcome := OUTCOMES.get(came.outcome)) is None:
            return f"The user adds: {came.note}" if came.note else ""
        return record(self._session, outcome, self._origin, note=came.note).told

    def _room(self) -> ProbeRoom:
        session = self._session
        cache = session.terminal.ground.made_cache()
        if cache is None and session.contained:
            raise ToolFailed("There is no room for a log that a run can write to.", hint="Make room, then try again.")
        return ProbeRoom(session.id, session.directory, cache)

    def _store(self, run: ProbeRun, log: Log, came: _Came) -> ProbeRun:
        result = came.result
        records = (*log.records, *_of_output(run.id, len(log.records), result))
        made = replace(
            run,
            exit_code=result.exit_code if result else None,
            ended=result.ended if result else came.outcome,
            log=self._session.shadow.blobs.put(written(records)),
            records=len(records),
            broken=log.broken,
            left=log.left,
            counts=counts(log.records),
        )
        self._session.emit(RunRecorded(run=made))
        record_proof(self._session, made)
        return made

    async def _live(self, wanted: Reproduction, run: str, layer: ProbeLayer) -> _Came:
        """The run itself, with what it logs going to the screen meanwhile."""
        watching = asyncio.create_task(self._watch(run, layer))
        try:
            return await (self._command(wanted, layer) if wanted.command else self._steps(wanted, layer))
        finally:
            watching.cancel()

    async def _watch(self, run: str, layer: ProbeLayer) -> None:
        seen, tails = 0, [Tail(layer.log), Tail(layer.posted)]
        while seen < LIVE:
            await asyncio.sleep(LOOK)
            records = read_log([tail.lines() for tail in tails], run, most=LIVE - seen).records
            if records:
                shown = tuple(_moved(each, seen) for each in records)
                seen += len(shown)
                self._session.emit(ProbeLogged(run=run, records=shown))

    # where probes that can write no file send what they log

    async def _collector(self, wanted: Reproduction, log: Path) -> Collector | None:
        """Listening, if a probe or the command speaks of it."""
        texts = [wanted.command, *(each.code for each in self._session.state.debug.probes.values())]
        if not any(word in text for text in texts for word in (URL_PLACE, URL_VARIABLE)):
            return None
        collector = Collector(self._session.id, log)
        try:
            await collector.start()
        except OSError as error:
            raise ToolFailed(f"Nothing can be collected over the network: {error.strerror}.") from None
        self._session.way_out.collector = collector.take
        return collector

    def _url(self, collector: Collector | None) -> str:
        """As what is run sees it: a box without a network of the machine's has its own way to us."""
        if collector is None:
            return ""
        has_own = self._session.terminal.ground.box.tier is Tier.NAMESPACES
        return f"http://127.0.0.1:{PROXY_PORT}{collector.path}" if has_own else collector.url

    async def _stop(self, collector: Collector | None) -> None:
        if collector is not None:
            self._session.way_out.collector = None
            await collector.close()

    # by a command

    async def _agreed(self, wanted: Reproduction) -> None:
        session = self._session
        tool = RunTerminalCmd(command=wanted.command, explanation="It is to show the fault, with the probes in place.")
        if why := await refusal(session, self._origin.call, tool):
            raise ToolFailed(f"`{wanted.command}` was not run: {why}")
        self._check()

    async def _command(self, wanted: Reproduction, layer: ProbeLayer) -> _Came:
        session = self._session
        order = Order(
            command=wanted.command,
            origin=self._origin,
            keeps=not session.contained,  # without a box the effects can't be dropped, and there are no probes
            seconds=min(wanted.seconds, LONGEST),
            over=layer.over,
            env=layer.env,
        )
        try:
            result = await session.terminal.run(order, self._show)
        finally:
            session.way_out.end_once()
        return _Came(outcome="ran", result=result)

    def _show(self, text: str) -> None:
        self._session.emit(ToolOutput(call=self._origin.call, text=text))

    # by the user

    async def _steps(self, wanted: Reproduction, layer: ProbeLayer) -> _Came:
        session = self._session
        if session.contained:
            session.terminal.probing = layer
        try:
            question = _question(wanted.steps, after_fix=self._has_fix(), contained=session.contained)
            asked = QuestionAsked(id=new_id("ask"), call=self._origin.call, questions=(question,))
            answered = await session.ask(asked)
        finally:
            session.terminal.probing = None
        if not answered.answers:
            return _Came(outcome="stopped")
        answer = answered.answers[0]
        chosen = answer.options[0] if answer.options else "proceed"
        return _Came(outcome=_CHOICES.get(chosen, "proceed"), note=answer.text.strip())


def _question(steps: tuple[str, ...], *, after_fix: bool, contained: bool) -> Question:
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    how = (
        "\n\nStart the program with !command: until you answer, what you run that way has the probes, and what it "
        "changes in files is dropped."
        if contained
        else ""
    )
    options = (PROCEED, *VERDICTS) if after_fix else (PROCEED,)
    return Question(id=ASKED_TO_SHOW, text=f"Please show the fault:\n\n{numbered}{how}", options=options)


def _moved(record: ProbeRecord, by: int) -> ProbeRecord:
    return replace(record, line=record.line + by)


def _of_output(run: str, before: int, result: CommandResult | None) -> tuple[ProbeRecord, ...]:
    """The end of what a command said, so that a verdict can cite it, too."""
    lines = [line for line in result.output.splitlines() if line.strip()] if result else []
    return tuple(
        ProbeRecord(line=before + number, run_id=run, location=OUTPUT, message=line[:LINE])
        for number, line in enumerate(lines[-OUTPUT_LINES:], start=1)
    )
