"""The gate: the one path that every tool call takes, from the model's words to one answer.

find type -> parse -> find box -> check granted -> let the user type -> decide -> approve -> grant the capability -> run
-> retry with network -> clip, then record, whatever happened. Every call gets exactly one `tool.finished` and one tool
message, in the order of the calls, so the history stays valid for every provider. READ calls of one step run at the
same time; any other access is a barrier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import cast

from core.agent.answer.call_documents import FinishedCall, build_document, decode_arguments
from core.agent.answer.documents import OpenDocument, TurnDocuments
from core.agent.context.sent_attachments import store_attachments
from core.agent.debug.debug_policy import explain_held_back
from core.agent.gate.capabilities import CallLease, CommandRunner, UserPrompter, build_capability
from core.agent.gate.consent import Consent, build_approval, decide_on_call, record_exposure
from core.agent.gate.manual_command import ask_for_command
from core.agent.gate.network_approval import MAX_RERUNS, ask_for_network, format_targets, take_refused_targets
from core.agent.turn.turn_context import QUESTION_STILL_OPEN, TurnContext
from core.clock import monotonic
from core.crash_reports import save_crash_report
from core.errors import AgentTuiError, ToolInputInvalid
from core.modes import Access, Mode, find_modes_granting, is_granted
from core.permissions.approval import Approval
from core.permissions.policy import PolicyDecision
from core.protocol.events import MessageAppended, ToolFinished, ToolRequested, ToolStatus
from core.protocol.messages import ToolCall, ToolMessage
from core.protocol.review import Origin
from core.shell.spill import clip_text, extract_first_line
from core.tools.base import Tool, ToolOutcome, ToolType
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd
from core.tools.call_tool import unwrap_call
from core.tools.registry import find_tool, parse_call

CANCEL_PATIENCE = 0.2  # seconds that a cancelled tool has to clean up
CANCELLED = "Cancelled by the user; it may have had a part of its effect."
NOT_RUN = "Cancelled by the user before it ran."
NOT_GIVEN = "Not run: {} ({}) is not among what you were given for this task. Nothing was changed. Do without it."
# Seconds that a call may take; what waits for the user, or has a limit of its own, has none here (a todo may have to be
# proved by a command). A model may have to work out an edit.
TIME_LIMITS = {Access.READ: 60.0, Access.PROPOSE: 300.0}


class CallStopped(Exception):
    """Raised by a stage to end the call: the text for the model, and how the call counts."""

    def __init__(self, status: ToolStatus, text: str, *, is_malformed: bool = False) -> None:
        super().__init__(text)
        self.status: ToolStatus = status
        self.text = text
        self.is_malformed = is_malformed


class GatedCall:
    """One tool call on its way through the gate.

    The loop learns from `has_failed` and `is_malformed`: no call could be made of what the model wrote, whatever the
    project holds.
    """

    def __init__(
        self,
        session: TurnContext,
        request: ToolCall,
        document: OpenDocument,
        *,
        is_truncated: bool = False,
        problem: str = "",
    ) -> None:
        self.session = session
        self.request = unwrap_call(request)
        self.document = document
        self.is_truncated = is_truncated
        self.problem = problem
        self.tool_type: ToolType | None = None
        self.tool: Tool[object] | None = None
        self.mode = Mode(session.state.mode)
        self.decision = PolicyDecision(choice="deny")
        self.approval = Approval(subject="")
        self.approved_paths: tuple[str, ...] = ()
        self.lease = CallLease()
        self.capability: object = None
        self.outcome = ToolOutcome(content="")
        self.status: ToolStatus = "cancelled"
        self.text = NOT_RUN
        self.spilled = ""
        self.is_malformed = False
        self.proposed_command = ""
        self.is_recorded = False
        self.started = monotonic()

    @property
    def access(self) -> Access | None:
        return self.tool_type.access if self.tool_type else None

    @property
    def name(self) -> str:
        """The tool's own name, whatever the model called it."""
        return self.tool_type.name if self.tool_type else self.request.name

    @property
    def has_failed(self) -> bool:
        return self.status in {"failed", "denied"}

    def format_aside(self) -> str:
        """Return a line for before the result if the user ran another command than the proposed one."""
        if not self.proposed_command or self.proposed_command == self.get_subject():
            return ""
        return f"The user ran another command: {self.get_subject()}\n"

    def get_subject(self) -> str:
        return self.tool.subject() if self.tool else ""


# The stages, in order. Each is a function of the call that does its part or raises `Stopped` or an `AgentTuiError`.


def find_type(call: GatedCall) -> None:
    if call.is_truncated:
        raise CallStopped(
            "failed", "The answer reached its length limit within this call, so it was not run. Send less."
        )
    if call.problem:
        raise CallStopped("failed", call.problem, is_malformed=True)
    call.tool_type = find_tool(call.request.name)


def parse(call: GatedCall) -> None:
    call.tool = parse_call(call.request.name, call.request.arguments)


async def find_box(call: GatedCall) -> None:
    """Find the box, once: what a mode grants depends on whether commands are contained."""
    if call.access in {Access.EXEC, Access.JOB, Access.PROBE}:
        await call.session.terminal.find_box()


def check_granted(call: GatedCall) -> None:
    """Check the access against the mode that holds now, not the one in which the model made up its mind."""
    call.mode = Mode(call.session.state.mode)
    access = call.access
    if access is None or not is_granted(call.mode, access, is_contained=call.session.is_contained):
        raise CallStopped("denied", _format_mode_refusal(call))
    if not call.session.is_granted(access) or (call.session.subagent_limits is not None and call.name == "switch_mode"):
        raise CallStopped("denied", NOT_GIVEN.format(call.name, access.value))
    if why := explain_held_back(call.session, access):
        raise CallStopped("denied", why)


def _format_mode_refusal(call: GatedCall) -> str:
    """Format why the mode refuses the call, and what to do instead."""
    access, name = call.access or Access.EXTERNAL, call.name
    elsewhere = find_modes_granting(access, is_contained=call.session.is_contained)
    text = f"Not run: {call.mode.value} mode does not allow {name} ({access.value}). Nothing was changed."
    if not elsewhere:
        return f"{text} No mode allows it here; describe what you would do instead."
    modes = " or ".join(mode.value for mode in elsewhere)
    return (
        f"{text} It is possible in {modes} mode: if the request needs it, propose the mode with switch_mode; "
        "otherwise describe in your answer what you would do."
    )


async def let_user_type(call: GatedCall) -> None:
    """Replace the proposed command with the one that the user types, where commands are left to the user."""
    if call.session.settings.commands.policy != "human" or not isinstance(call.tool, RunTerminalCmd):
        return
    typed = await ask_for_command(call.session, call.request.id, call.tool)
    if typed is not None:
        check_granted(call)  # the mode may have changed meanwhile
        call.proposed_command, call.tool = call.tool.command, cast("Tool[object]", typed)


def decide(call: GatedCall) -> None:
    assert call.access is not None
    assert call.tool is not None
    call.decision = decide_on_call(call.session, call.access, call.tool, is_typed=bool(call.proposed_command))
    if call.decision.choice == "deny":
        raise CallStopped("denied", f"Not run: {call.decision.reason} Nothing was changed.")


async def approve(call: GatedCall) -> None:
    """Ask the user if that was decided. From here on the call is bound to what it is now (SAFETY D35)."""
    assert call.access is not None
    assert call.tool is not None
    if call.decision.choice == "ask":
        consent = Consent(call.session, call.request.id, call.access, call.tool)
        if refused := await consent.ask(call.decision.reason):
            raise CallStopped("denied", f"Not run: {refused}")
        call.approved_paths = consent.paths
        check_granted(call)  # the mode may have changed while the user thought about it
    if call.access is Access.EXEC:
        call.approval = build_approval(call.session, call.get_subject())


def grant_capability(call: GatedCall) -> None:
    """Build the capability: what the tool can reach, and no more."""
    assert call.access is not None
    call.started = monotonic()  # the time that the user took to decide is not the call's
    record_exposure(call.session, call.access, call.tool)
    origin = Origin(turn=call.session.turn_id, call=call.request.id, tool=call.name)
    call.capability = build_capability(
        call.session, call.access, origin, call.approval, call.lease, call.approved_paths
    )


async def run(call: GatedCall) -> None:
    assert call.tool is not None
    limit = TIME_LIMITS.get(call.access) if call.access else None
    work = asyncio.ensure_future(call.tool.run(call.capability))
    call.text = CANCELLED
    try:
        done, _ = await asyncio.wait({work}, timeout=limit)
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=CANCEL_PATIENCE)
            if isinstance(call.capability, CommandRunner):
                call.text = call.capability.describe_interrupt(CANCELLED)
            elif isinstance(call.capability, UserPrompter) and call.capability.questions:
                call.text = QUESTION_STILL_OPEN
        call.lease.end()
        if work.done() and not work.cancelled():
            work.exception()
    if not done:
        raise CallStopped("failed", f"Stopped after {limit:.0f} seconds without a result. Ask for less at once.")
    if work.cancelled():
        raise CallStopped("failed", "The tool gave up.")
    call.outcome = work.result()
    call.status, call.text = ("failed" if call.outcome.failed else "completed"), call.outcome.content


async def retry_with_network(call: GatedCall) -> None:
    """Ask about the hosts that a finished command wanted, and run it again after a yes."""
    session = call.session
    if not isinstance(call.tool, RunTerminalCmd) or call.tool.is_background:
        return
    try:
        for _ in range(MAX_RERUNS):
            wanted = take_refused_targets(session)
            if not wanted:
                return
            if not await ask_for_network(session, call.request.id, call.tool.command, wanted):
                call.text += f"\n[It wanted the network: {format_targets(wanted)}. It was not allowed to.]"
                return
            check_granted(call)
            call.approval, call.lease = build_approval(session, call.get_subject()), CallLease()
            grant_capability(call)
            await run(call)
            call.text = f"[Run again, with the network to {format_targets(wanted)}.]\n{call.text}"
    finally:
        session.network_grants.revoke_once()


def clip_result(call: GatedCall) -> None:
    call.text, spilled = clip_text(call.session.directory, call.request.id, f"{call.format_aside()}{call.text}")
    call.spilled = spilled or call.outcome.spilled


Stage = Callable[[GatedCall], Awaitable[None] | None]
PREPARATION: tuple[Stage, ...] = (find_type, parse)
PASSAGE: tuple[Stage, ...] = (
    find_box,
    check_granted,
    let_user_type,
    decide,
    approve,
    grant_capability,
    run,
    retry_with_network,
    clip_result,
)


def get_no_warning(_: GatedCall) -> str:
    return ""


def get_text(call: GatedCall) -> str:
    return call.text


async def run_calls(
    documents: TurnDocuments,
    calls: Sequence[GatedCall],
    *,
    get_warning: Callable[[GatedCall], str] = get_no_warning,
    get_answer: Callable[[GatedCall], str] = get_text,
) -> None:
    """Run all calls of one step. When cancelled, every call still gets its one answer.

    `get_answer` returns the answer of a call, `get_warning` what is to be added to it, "" = nothing.
    """
    recorded = 0
    try:
        for call in calls:
            await _run_stages(call, PREPARATION)
            _emit_requested(call)
        for group in _group_calls(calls):
            await _run_together([_run_call(documents, call) for call in group])
            for call in group:
                _append_result(call, get_answer(call), get_warning(call))
                recorded += 1
    except asyncio.CancelledError:
        for call in calls[recorded:]:
            if not call.is_recorded:
                _record_finished(documents, call)
            _append_result(call, get_answer(call))
        raise


def _group_calls(calls: Sequence[GatedCall]) -> Iterator[list[GatedCall]]:
    """Yield runs of neighbouring READ calls; everything else stands alone."""
    group: list[GatedCall] = []
    for call in calls:
        if call.access is Access.READ:
            group.append(call)
            continue
        if group:
            yield group
        yield [call]
        group = []
    if group:
        yield group


async def _run_together(work: Sequence[Awaitable[None]]) -> None:
    if len(work) == 1:
        await work[0]
    else:
        await asyncio.gather(*work)


async def _run_call(documents: TurnDocuments, call: GatedCall) -> None:
    if call.status == "cancelled":
        call.started = monotonic()
        await _run_stages(call, PASSAGE)
    _record_finished(documents, call)


async def _run_stages(call: GatedCall, stages: Sequence[Stage]) -> None:
    """Run stages until one of them ends the call. Only an interrupt is let through."""
    try:
        for stage in stages:
            waiting = stage(call)
            if isawaitable(waiting):
                await waiting
    except CallStopped as stopped:
        call.status, call.text, call.is_malformed = stopped.status, stopped.text, stopped.is_malformed
    except ToolInputInvalid as invalid:
        # What was found while it ran (nothing there, two places, not read yet) says nothing against the arguments.
        call.status, call.text, call.is_malformed = "failed", invalid.format_with_hint(), call.tool is None
    except AgentTuiError as error:
        call.status, call.text = "failed", error.format_with_hint()
    except Exception as error:  # a fault of ours must not end the turn, nor show a traceback to anybody
        name = Path(save_crash_report(error, f"the tool {call.name}")).name
        kept = f" (kept as {name} among the faults)" if name else ""
        call.status = "failed"
        call.text = f"The tool failed unexpectedly ({type(error).__name__}){kept}; try another way."


def _emit_requested(call: GatedCall) -> None:
    request = call.request
    call.session.emit(
        ToolRequested(
            call=request.id,
            tool=call.name,
            arguments=request.arguments,
            document=call.document.id,
            summary=call.get_subject(),
        )
    )


def _record_finished(documents: TurnDocuments, call: GatedCall) -> None:
    """Finish the call's document and emit its one `tool.finished`."""
    call.is_recorded = True
    desk = call.capability if isinstance(call.capability, UserPrompter) else None
    duration = round((monotonic() - call.started) * 1000)
    summary = call.outcome.summary or ("" if call.status == "completed" else extract_first_line(call.text))
    ended = FinishedCall(
        document=call.document,
        tool=call.name,
        call=call.request.id,
        arguments=decode_arguments(call.request.arguments),
        has_succeeded=call.status == "completed",
        text=call.text,
        summary=summary,
        duration_ms=duration,
        detail=call.outcome.detail,
        title=desk.title if desk else "",
        questions=desk.questions if desk else (),
        answers=desk.answers if desk else (),
    )
    documents.finish(build_document(ended))
    call.session.emit(
        ToolFinished(
            call=call.request.id,
            tool=call.name,
            status=call.status,
            duration_ms=duration,
            summary=summary,
            spilled=call.spilled,
        )
    )


def _append_result(call: GatedCall, text: str, warning: str = "") -> None:
    content = f"{text}\n{warning}".strip() or "(no output)"
    shown = store_attachments(call.session, call.outcome.attachments)
    failed = call.status != "completed"
    message = ToolMessage(call_id=call.request.id, content=content, is_error=failed, attachments=shown)
    call.session.emit(MessageAppended(message=message))
