"""One run with probes: by a command that the permissions allow, or by the user, who follows steps.

Records of the log are emitted during the run, and stored at its end, even if it fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.approvals import Approver
from core.agent.debug.fix_verdict import OUTCOME_BY_OPTION, PROCEED_OPTION, VERDICT_OPTIONS, FixReview
from core.clock import monotonic
from core.debug.probe_records import OUTPUT, ParsedLog, count_records, encode_records, read_log
from core.errors import ToolFailed
from core.ids import new_id
from core.protocol.debug import REPRODUCE_QUESTION, ProbeRecord, ProbeRun
from core.protocol.documents import Question
from core.protocol.events import ProbeLogged, QuestionAsked, ReproduceEnded, ReproduceRequested, RunRecorded, ToolOutput
from core.protocol.events.debug import ReproduceOutcome
from core.protocol.review import Origin
from core.sandbox.inside.messages import PROXY_PORT
from core.sandbox.results import CommandResult
from core.shell.command_host import CommandRequest
from core.shell.log_collector import LogCollector
from core.shell.probe_overlay import URL_PLACEHOLDER, URL_VARIABLE, LogTail, ProbeMount, ProbeOverlay, read_chunks
from core.tools.builtin.debugging import Reproduction, ReproductionReport
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

MAX_SECONDS = 600.0
POLL_PERIOD = 0.2  # seconds between two reads of the log during a run
MAX_LIVE_RECORDS = 500  # records that are emitted during a run
MAX_OUTPUT_LINES = 200  # last lines of a command's output that become part of the log
MAX_LINE = 1_000
_CHOICES: dict[str, ReproduceOutcome] = {"proceed": "proceed", "fixed": "fixed", "broken": "broken"}


class _RunEnd(Struct, frozen=True, kw_only=True):
    outcome: ReproduceOutcome
    result: CommandResult | None = None
    note: str = ""


class ProbeRunner:
    """Runner of one reproduction. `check_lease` raises when the call has ended."""

    def __init__(self, approver: Approver, fix: FixReview, origin: Origin, check_lease: Callable[[], None]) -> None:
        self._approver = approver
        self._permissions = approver.permissions
        self._terminal = approver.permissions.terminal
        self._host = self._terminal.host
        self._fix = fix
        self._origin = origin
        self._check = check_lease

    async def reproduce(self, reproduction: Reproduction) -> ReproductionReport:
        """Reproduce the fault once. Raises `ToolFailed` if it is refused or can't begin; then there is no run."""
        host, state = self._host, self._host.state.debug
        if reproduction.steps and not self._approver.user.is_interactive:
            raise ToolFailed("Nobody can be asked in this session.", hint="Give a command that shows the fault.")
        if reproduction.command:
            await self._check_permitted(reproduction)
        run = ProbeRun(
            id=f"r{state.run_count + 1}", command=reproduction.command, ended="stopped", after_fix=self._has_fix()
        )
        overlay = self._build_overlay()
        collector = await self._start_collector(reproduction, overlay.build_posted_path(run.id))
        try:
            probes = tuple(state.probes.values())
            layer = overlay.open(run.id, probes, host.shadow, self._build_url(collector), host.box.tier)
        except BaseException:
            await self._stop_collector(collector)
            raise
        run = replace(run, probes=len(probes) - len(layer.lost_probes))
        command, steps = reproduction.command, reproduction.steps
        host.emit(ReproduceRequested(run=run.id, call=self._origin.call, command=command, steps=steps))
        start_time, run_end = monotonic(), _RunEnd(outcome="stopped")
        try:
            run_end = await self._run_watched(reproduction, run.id, layer)
        finally:
            await self._stop_collector(collector)
            log = read_log(chain(read_chunks(layer.log), [b"\n"], read_chunks(layer.posted)), run.id, host.session_id)
            overlay.close(run.id)
            run = replace(run, duration_ms=round((monotonic() - start_time) * 1000))
            recorded_run = self._store_run(run, log, run_end)
            host.emit(ReproduceEnded(run=run.id, outcome=run_end.outcome))
        return ReproductionReport(
            run=recorded_run,
            outcome=run_end.outcome,
            result=run_end.result,
            note=self._record_user_verdict(run_end),
            lost=layer.lost_probes,
            unseen=() if self._terminal.is_contained else tuple(state.fixes),
        )

    def _has_fix(self) -> bool:
        """True if this run includes the fix. Without a box it sees the files on disk, without pending changes."""
        debug = self._host.state.debug
        return debug.has_fix and (self._terminal.is_contained or not debug.fixes)

    def _record_user_verdict(self, run_end: _RunEnd) -> str:
        if (outcome := OUTCOME_BY_OPTION.get(run_end.outcome)) is None:
            return f"The user adds: {run_end.note}" if run_end.note else ""
        return self._fix.record(outcome, self._origin, note=run_end.note).message

    def _build_overlay(self) -> ProbeOverlay:
        host = self._host
        cache = host.ensure_cache()
        if cache is None and self._terminal.is_contained:
            raise ToolFailed(
                "There is no room for a log that a run can write to.", hint="Free some space, then try again."
            )
        return ProbeOverlay(host.session_id, host.directory, cache)

    def _store_run(self, run: ProbeRun, log: ParsedLog, run_end: _RunEnd) -> ProbeRun:
        result = run_end.result
        records = (*log.records, *_build_output_records(run.id, len(log.records), result))
        recorded_run = replace(
            run,
            exit_code=result.exit_code if result else None,
            ended=result.ended if result else run_end.outcome,
            log=self._host.shadow.blobs.put(encode_records(records)),
            records=len(records),
            broken=log.broken,
            left=log.left_out,
            counts=count_records(log.records),
        )
        self._host.emit(RunRecorded(run=recorded_run))
        self._fix.record_proof(recorded_run)
        return recorded_run

    async def _run_watched(self, reproduction: Reproduction, run: str, layer: ProbeMount) -> _RunEnd:
        watching = asyncio.create_task(self._stream_records(run, layer))
        try:
            return await (
                self._run_command(reproduction, layer)
                if reproduction.command
                else self._ask_user_to_reproduce(reproduction, layer)
            )
        finally:
            watching.cancel()

    async def _stream_records(self, run: str, layer: ProbeMount) -> None:
        record_count, tails = 0, [LogTail(layer.log), LogTail(layer.posted)]
        while record_count < MAX_LIVE_RECORDS:
            await asyncio.sleep(POLL_PERIOD)
            records = read_log(
                [tail.read_lines() for tail in tails], run, limit=MAX_LIVE_RECORDS - record_count
            ).records
            if records:
                live_records = tuple(replace(record, line=record.line + record_count) for record in records)
                record_count += len(live_records)
                self._host.emit(ProbeLogged(run=run, records=live_records))

    # the collector, for probes that send their records over the network

    async def _start_collector(self, reproduction: Reproduction, log: Path) -> LogCollector | None:
        texts = [reproduction.command, *(probe.code for probe in self._host.state.debug.probes.values())]
        if not any(word in text for text in texts for word in (URL_PLACEHOLDER, URL_VARIABLE)):
            return None
        collector = LogCollector(self._host.session_id, log)
        try:
            await collector.start()
        except OSError as error:
            raise ToolFailed(f"Logs can't be collected over the network: {error.strerror}.") from None
        self._permissions.network_grants.collector = collector.handle_request
        return collector

    def _build_url(self, collector: LogCollector | None) -> str:
        """Return the collector's URL for the run; a box without the machine's network uses the proxy."""
        if collector is None:
            return ""
        has_own = self._host.box.tier.uses_proxy
        return f"http://127.0.0.1:{PROXY_PORT}{collector.path}" if has_own else collector.url

    async def _stop_collector(self, collector: LogCollector | None) -> None:
        if collector is not None:
            self._permissions.network_grants.collector = None
            await collector.close()

    # a run by a command

    async def _check_permitted(self, reproduction: Reproduction) -> None:
        tool = _build_tool(reproduction)
        if (refusal := await self._approver.find_refusal(self._origin.call, tool)) is not None:
            raise ToolFailed(f"`{reproduction.command}` was not run: {refusal}")
        self._check()

    async def _run_command(self, reproduction: Reproduction, layer: ProbeMount) -> _RunEnd:
        request = CommandRequest(
            command=reproduction.command,
            origin=self._origin,
            # Without a box there are no probes, and the effects can't be dropped.
            keeps_effects=not self._terminal.is_contained,
            time_limit=min(reproduction.seconds, MAX_SECONDS),
            overlays=layer.overlays,
            env=layer.env,
        )
        try:
            result = await self._terminal.run(request, self._emit_output)
        finally:
            self._permissions.network_grants.revoke_once()
        await self._approver.report_command(self._origin.call, _build_tool(reproduction), result)
        return _RunEnd(outcome="ran", result=result)

    def _emit_output(self, text: str) -> None:
        self._host.emit(ToolOutput(call=self._origin.call, text=text))

    # a run by the user

    async def _ask_user_to_reproduce(self, reproduction: Reproduction, layer: ProbeMount) -> _RunEnd:
        is_contained = self._terminal.is_contained
        if is_contained:
            self._terminal.probe_mount = layer
        try:
            question = _build_question(reproduction.steps, after_fix=self._has_fix(), is_contained=is_contained)
            request = QuestionAsked(id=new_id("ask"), call=self._origin.call, questions=(question,))
            response = await self._approver.user.ask(request)
        finally:
            self._terminal.probe_mount = None
        if not response.answers:
            return _RunEnd(outcome="stopped")
        answer = response.answers[0]
        option = answer.options[0] if answer.options else "proceed"
        return _RunEnd(outcome=_CHOICES.get(option, "proceed"), note=answer.text.strip())


def _build_question(steps: tuple[str, ...], *, after_fix: bool, is_contained: bool) -> Question:
    numbered_steps = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    instructions = (
        "\n\nStart the program with !command. Until you answer, what you run that way has the probes, "
        "and its file changes are dropped."
        if is_contained
        else ""
    )
    options = (PROCEED_OPTION, *VERDICT_OPTIONS) if after_fix else (PROCEED_OPTION,)
    return Question(
        id=REPRODUCE_QUESTION, text=f"Please reproduce the fault:\n\n{numbered_steps}{instructions}", options=options
    )


def _build_output_records(run: str, before: int, result: CommandResult | None) -> tuple[ProbeRecord, ...]:
    """Return the last lines of a command's output as records, so that a verdict can cite them. `before`: the number of
    records before them."""
    lines = [line for line in result.output.splitlines() if line.strip()] if result else []
    return tuple(
        ProbeRecord(line=before + number, run_id=run, location=OUTPUT, message=line[:MAX_LINE])
        for number, line in enumerate(lines[-MAX_OUTPUT_LINES:], start=1)
    )


def _build_tool(reproduction: Reproduction) -> RunTerminalCmd:
    return RunTerminalCmd(command=reproduction.command, explanation="It reproduces the fault with the probes active.")
