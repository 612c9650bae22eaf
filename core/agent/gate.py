"""The gate: the one path that every tool call takes, from the model's words to one answer.

find -> parse -> house -> grant -> leave to the user -> decide -> approve -> contain -> run -> reach -> clip, then
record, whatever happened. Every call gets exactly one `tool.finished` and one tool message, in the order of the calls,
so the history stays valid for every provider. READ calls of one step run at the same time; any other access is a
barrier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import cast

from core.agent.attached import kept
from core.agent.by_hand import typed_command
from core.agent.call_documents import Ended, decoded, document_of
from core.agent.capabilities import CommandRunner, Lease, UserDesk, capability_for
from core.agent.consent import Consent, approval_of, judge, note_exposure
from core.agent.debug_course import held_back
from core.agent.documents import Documents, Opened
from core.agent.reach import AGAIN, ask_for, refused_hosts, told
from core.agent.session import STILL_OPEN, SessionContext
from core.agent.spill import clip, first_line
from core.clock import monotonic
from core.errors import AgentTuiError, ToolInputInvalid
from core.faults import keep
from core.modes import Access, Mode, granted, modes_granting
from core.permissions.approval import Approval
from core.policy import Decided
from core.protocol.events import MessageAppended, ToolFinished, ToolRequested, ToolStatus
from core.protocol.messages import ToolCall, ToolMessage
from core.protocol.review import Origin
from core.tools.base import Outcome, Tool, ToolType
from core.tools.call_tool import unwrapped
from core.tools.registry import find_tool, parse_call
from core.tools.run_terminal_cmd import RunTerminalCmd

PATIENCE = 0.2  # seconds that a cancelled tool has to clean up
CANCELLED = "Cancelled by the user; it may have had a part of its effect."
NOT_RUN = "Cancelled by the user before it ran."
OUT_OF_REACH = "Not run: {} ({}) is not among what you were given for this task. Nothing was changed. Do without it."
# Seconds that a call may take; what waits for the user, or has a limit of its own, has none here (a todo may have to be
# proved by a command). A model may have to work out an edit.
TIME_LIMITS = {Access.READ: 60.0, Access.PROPOSE: 300.0}


class Stopped(Exception):
    """A stage ends the call: what the model is told, and how the call counts."""

    def __init__(self, status: ToolStatus, text: str, *, invalid: bool = False) -> None:
        super().__init__(text)
        self.status: ToolStatus = status
        self.text = text
        self.invalid = invalid


class Call:
    """One tool call on its way through the gate. `failed` and `invalid` are what the loop learns from it; `invalid`: no
    call could be made of what the model wrote, whatever the project holds."""

    def __init__(
        self, session: SessionContext, request: ToolCall, opened: Opened, *, truncated: bool = False, problem: str = ""
    ) -> None:
        self.session = session
        self.request = unwrapped(request)
        self.opened = opened
        self.truncated = truncated
        self.problem = problem
        self.kind: ToolType | None = None
        self.tool: Tool[object] | None = None
        self.mode = Mode(session.state.mode)
        self.decided = Decided(choice="deny")
        self.approval = Approval(subject="")
        self.approved: tuple[str, ...] = ()
        self.lease = Lease()
        self.capability: object = None
        self.outcome = Outcome(content="")
        self.status: ToolStatus = "cancelled"
        self.text = NOT_RUN
        self.spilled = ""
        self.invalid = False
        self.proposed = ""
        self.settled = False
        self.started = monotonic()

    @property
    def access(self) -> Access | None:
        return self.kind.access if self.kind else None

    @property
    def name(self) -> str:
        """The tool's own name, whatever the model called it."""
        return self.kind.name if self.kind else self.request.name

    @property
    def failed(self) -> bool:
        return self.status in {"failed", "denied"}

    def aside(self) -> str:
        """What there is to say before the result: which command the user ran in place of the one proposed."""
        if not self.proposed or self.proposed == self.subject():
            return ""
        return f"The user ran another command: {self.subject()}\n"

    def subject(self) -> str:
        return self.tool.subject() if self.tool else ""


# The stages, in order. Each is a function of the call that does its part or raises `Stopped` or an `AgentTuiError`.


def find(call: Call) -> None:
    if call.truncated:
        raise Stopped("failed", "The answer reached its length limit within this call, so it was not run. Send less.")
    if call.problem:
        raise Stopped("failed", call.problem, invalid=True)
    call.kind = find_tool(call.request.name)


def parse(call: Call) -> None:
    call.tool = parse_call(call.request.name, call.request.arguments)


async def house(call: Call) -> None:
    """What a mode grants depends on whether commands are contained; that is found out once."""
    if call.access in {Access.EXEC, Access.JOB, Access.PROBE}:
        await call.session.terminal.find()


def grant(call: Call) -> None:
    """By the mode that holds now, not by the one in which the model made up its mind."""
    call.mode = Mode(call.session.state.mode)
    access = call.access
    if access is None or not granted(call.mode, access, contained=call.session.contained):
        raise Stopped("denied", _refusal(call))
    if not call.session.grants(access) or (call.session.leash is not None and call.name == "switch_mode"):
        raise Stopped("denied", OUT_OF_REACH.format(call.name, access.value))
    if why := held_back(call.session, access):
        raise Stopped("denied", why)


def _refusal(call: Call) -> str:
    """What is wrong, and what to do instead."""
    access, name = call.access or Access.EXTERNAL, call.name
    elsewhere = modes_granting(access, contained=call.session.contained)
    text = f"Not run: {call.mode.value} mode does not allow {name} ({access.value}). Nothing was changed."
    if not elsewhere:
        return f"{text} No mode allows it here; describe what you would do instead."
    modes = " or ".join(mode.value for mode in elsewhere)
    return (
        f"{text} It is possible in {modes} mode: if the request needs it, propose the mode with switch_mode; "
        "otherwise describe in your answer what you would do."
    )


async def leave_to_user(call: Call) -> None:
    """Where commands are left to the user, the one that they type takes the place of the one that was proposed."""
    if call.session.settings.commands.policy != "human" or not isinstance(call.tool, RunTerminalCmd):
        return
    typed = await typed_command(call.session, call.request.id, call.tool)
    if typed is not None:
        grant(call)  # the mode may have changed meanwhile
        call.proposed, call.tool = call.tool.command, cast("Tool[object]", typed)


def decide_on(call: Call) -> None:
    assert call.access is not None
    assert call.tool is not None
    call.decided = judge(call.session, call.access, call.tool, typed=bool(call.proposed))
    if call.decided.choice == "deny":
        raise Stopped("denied", f"Not run: {call.decided.reason} Nothing was changed.")


async def approve(call: Call) -> None:
    """Ask the user, if that was decided. From here on the call is bound to what it is now (SAFETY D35)."""
    assert call.access is not None
    assert call.tool is not None
    if call.decided.choice == "ask":
        consent = Consent(call.session, call.request.id, call.access, call.tool)
        if refused := await consent.ask(call.decided.reason):
            raise Stopped("denied", f"Not run: {refused}")
        call.approved = consent.paths
        grant(call)  # the mode may have changed while the user thought about it
    if call.access is Access.EXEC:
        call.approval = approval_of(call.session, call.subject())


def contain(call: Call) -> None:
    """Hand out the capability: what the tool can reach, and no more."""
    assert call.access is not None
    call.started = monotonic()  # the time that the user took to decide is not the call's
    note_exposure(call.session, call.access, call.tool)
    origin = Origin(turn=call.session.turn, call=call.request.id, tool=call.name)
    call.capability = capability_for(call.session, call.access, origin, call.approval, call.lease, call.approved)


async def run(call: Call) -> None:
    assert call.tool is not None
    limit = TIME_LIMITS.get(call.access) if call.access else None
    work = asyncio.ensure_future(call.tool.run(call.capability))
    call.text = CANCELLED
    try:
        done, _ = await asyncio.wait({work}, timeout=limit)
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=PATIENCE)
            if isinstance(call.capability, CommandRunner):
                call.text = call.capability.cut_short(CANCELLED)
            elif isinstance(call.capability, UserDesk) and call.capability.questions:
                call.text = STILL_OPEN
        call.lease.end()
        if work.done() and not work.cancelled():
            work.exception()
    if not done:
        raise Stopped("failed", f"Stopped after {limit:.0f} seconds without a result. Ask for less at once.")
    if work.cancelled():
        raise Stopped("failed", "The tool gave up.")
    call.outcome = work.result()
    call.status, call.text = ("failed" if call.outcome.failed else "completed"), call.outcome.content


async def reach(call: Call) -> None:
    """A command that wanted the network is asked about now, with what happened, and run again after a yes."""
    session = call.session
    if not isinstance(call.tool, RunTerminalCmd) or call.tool.is_background:
        return
    try:
        for _ in range(AGAIN):
            wanted = refused_hosts(session)
            if not wanted:
                return
            if not await ask_for(session, call.request.id, call.tool.command, wanted):
                call.text += f"\n[It wanted the network: {told(wanted)}. It was not allowed to.]"
                return
            grant(call)
            call.approval, call.lease = approval_of(session, call.subject()), Lease()
            contain(call)
            await run(call)
            call.text = f"[Run again, with the network to {told(wanted)}.]\n{call.text}"
    finally:
        session.way_out.end_once()


def clip_result(call: Call) -> None:
    call.text, spilled = clip(call.session.directory, call.request.id, f"{call.aside()}{call.text}")
    call.spilled = spilled or call.outcome.spilled


Stage = Callable[[Call], Awaitable[None] | None]
PREPARATION: tuple[Stage, ...] = (find, parse)
PASSAGE: tuple[Stage, ...] = (house, grant, leave_to_user, decide_on, approve, contain, run, reach, clip_result)


def no_warning(_: Call) -> str:
    return ""


def text_of(call: Call) -> str:
    return call.text


async def run_calls(
    documents: Documents,
    calls: Sequence[Call],
    *,
    warn: Callable[[Call], str] = no_warning,
    tell: Callable[[Call], str] = text_of,
) -> None:
    """Take all calls of one step through the gate. When cancelled, every call still gets its one answer.

    `tell` gives the answer of a call, `warn` what is to be added to it, "" = nothing.
    """
    recorded = 0
    try:
        for call in calls:
            await _pass(call, PREPARATION)
            _announce(call)
        for group in _groups(calls):
            await _together([_finish(documents, call) for call in group])
            for call in group:
                _answer(call, tell(call), warn(call))
                recorded += 1
    except asyncio.CancelledError:
        for call in calls[recorded:]:
            if not call.settled:
                _record(documents, call)
            _answer(call, tell(call))
        raise


def _groups(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Runs of neighbouring READ calls; everything else stands alone."""
    group: list[Call] = []
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


async def _together(work: Sequence[Awaitable[None]]) -> None:
    if len(work) == 1:
        await work[0]
    else:
        await asyncio.gather(*work)


async def _finish(documents: Documents, call: Call) -> None:
    if call.status == "cancelled":
        call.started = monotonic()
        await _pass(call, PASSAGE)
    _record(documents, call)


async def _pass(call: Call, stages: Sequence[Stage]) -> None:
    """Through the stages until one of them ends it. Only an interrupt is let through."""
    try:
        for stage in stages:
            waiting = stage(call)
            if isawaitable(waiting):
                await waiting
    except Stopped as stopped:
        call.status, call.text, call.invalid = stopped.status, stopped.text, stopped.invalid
    except ToolInputInvalid as invalid:
        # What was found while it ran (nothing there, two places, not read yet) says nothing against the arguments.
        call.status, call.text, call.invalid = "failed", invalid.explained(), call.tool is None
    except AgentTuiError as error:
        call.status, call.text = "failed", error.explained()
    except Exception as error:  # a fault of ours must not end the turn, nor show a traceback to anybody
        name = Path(keep(error, f"the tool {call.name}")).name
        kept = f" (kept as {name} among the faults)" if name else ""
        call.status = "failed"
        call.text = f"The tool failed unexpectedly ({type(error).__name__}){kept}; try another way."


def _announce(call: Call) -> None:
    request = call.request
    call.session.emit(
        ToolRequested(
            call=request.id,
            tool=call.name,
            arguments=request.arguments,
            document=call.opened.id,
            summary=call.subject(),
        )
    )


def _record(documents: Documents, call: Call) -> None:
    """The call's document and its one `tool.finished`."""
    call.settled = True
    desk = call.capability if isinstance(call.capability, UserDesk) else None
    duration = round((monotonic() - call.started) * 1000)
    summary = call.outcome.summary or ("" if call.status == "completed" else first_line(call.text))
    ended = Ended(
        opened=call.opened,
        tool=call.name,
        call=call.request.id,
        arguments=decoded(call.request.arguments),
        succeeded=call.status == "completed",
        text=call.text,
        summary=summary,
        duration_ms=duration,
        detail=call.outcome.detail,
        title=desk.title if desk else "",
        questions=desk.questions if desk else (),
        answers=desk.answers if desk else (),
    )
    documents.finish(document_of(ended))
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


def _answer(call: Call, text: str, warning: str = "") -> None:
    content = f"{text}\n{warning}".strip() or "(no output)"
    shown = kept(call.session, call.outcome.attachments)
    failed = call.status != "completed"
    message = ToolMessage(call_id=call.request.id, content=content, is_error=failed, attachments=shown)
    call.session.emit(MessageAppended(message=message))
