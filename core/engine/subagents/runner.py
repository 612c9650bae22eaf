"""Run one subagent in its own session: its turns, its grants, what it reports to the parent, and its end.

Questions of a subagent reach the parent at once, its progress a few times a second.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.budget import SubagentLimits
from core.agent.context.turn_context import TurnContext
from core.agent.debug.debug_policy import explain_blocked_edit
from core.agent.mentions.sources import PromptSurroundings
from core.clock import monotonic
from core.engine.session.session import Session
from core.engine.turns.lifecycle import ask_model, reserve_turn, start_turn
from core.modes import Access
from core.protocol import events as ev
from core.protocol.documents import TextDocument
from core.protocol.events import EffortChanged, ModelChanged, SubagentFinished, SubagentStarted, TurnEnd
from core.protocol.messages import Effort, Usage
from core.protocol.renames import list_changes
from core.state.call_words import describe_call
from core.state.session import add_usage, subtract_usage
from core.text.lines import clip

INTERVAL: Final = 0.3  # seconds between two reports of the same subagent
HEARTBEAT: Final = 1.0  # seconds after which its time is reported again, unless it waits for the user
MAX_SHOWN_ACTS: Final = 6  # acts in a progress report
MAX_STORED_ACTS: Final = 200  # acts in the final report
MAX_ACT_LENGTH: Final = 160  # characters of an act
MAX_LAST_WORDS: Final = 2_000  # characters of its last words in reports
_RUNNING: Final = frozenset({Access.EXEC, Access.JOB, Access.EXTERNAL})


class SubagentEnd(Struct, frozen=True, kw_only=True):
    """The end of a subagent's run. `message`: why its work is not done."""

    reason: TurnEnd
    message: str = ""


class SubagentRunner(ABC):
    """Runs one subagent. `close` must be called after any outcome."""

    def __init__(self, parent: Session, child: Session, start_event: SubagentStarted, limits: SubagentLimits) -> None:
        self.parent = parent
        self.child = child
        self.is_resumed = child.id in parent.state.subagents
        self._is_finished = False
        child.call_permissions.subagent_limits = limits
        self._requested_tools = parent.call_permissions.requested_tools
        child.call_permissions.record_foreign(parent.state.foreign_sources)
        parent.emit(replace(start_event, model=child.state.model, again=self.is_resumed))
        self.reporter = SubagentReporter(parent, child, start_event)

    @property
    def id(self) -> str:
        return self.child.id

    @abstractmethod
    async def work(self) -> SubagentEnd:
        """Do the work. Raises `AgentTuiError`."""

    async def run(self) -> SubagentEnd:
        """Run the subagent to its end, including its processes. Raises `AgentTuiError`."""
        end = await self.work()
        await self.child.terminal.close()
        self.report_end(end)
        return end

    async def run_turn(
        self, prompt: str, instruction: str, surroundings: PromptSurroundings | None = None
    ) -> SubagentEnd:
        """Run one turn. `instruction`: sent to the model instead of the prompt, "" = the prompt; `surroundings`: those
        of the prompt."""
        child = self.child
        await reserve_turn(child)
        child.call_permissions.requested_tools = self._requested_tools
        start_turn(child, partial(ask_model, prompt=prompt, surroundings=surroundings, instruction=instruction), prompt)
        await child.turn_slot.wait_ended()
        turn = child.state.turns[-1]
        return SubagentEnd(reason=turn.reason or "failed", message=turn.message)

    def report_end(self, end: SubagentEnd) -> None:
        """Report its end, once."""
        if self._is_finished:
            return
        self._is_finished = True
        self.parent.call_permissions.record_foreign(self.child.state.foreign_sources)
        self.reporter.close()
        self.parent.emit_or_defer(
            SubagentFinished(
                id=self.id,
                reason=end.reason,
                message=end.message,
                said=self.reporter.last_words[-MAX_LAST_WORDS:],
                acts=self.reporter.final_acts,
                steps=sum(turn.steps for turn in self.child.state.turns),
                usage=self.reporter.usage,
                duration_ms=self.reporter.worked_ms,
            )
        )

    async def close(self, end: SubagentEnd) -> None:
        """Stop it if it still works, and close its session."""
        await self.child.stop_turn()
        await self.child.terminal.close()
        self.report_end(end)
        self.parent.subagents.pop(self.id, None)
        await self.child.close()


def set_model(child: Session, model: str, effort: Effort | Literal[""]) -> None:
    """Set model and effort of a subagent, "" = those of the subagent route."""
    model = model or child.settings.resolve_route("chat").model
    if model and model != child.state.model:
        child.emit(ModelChanged(model=model))
    if effort != child.state.model_choices.effort:
        child.emit(EffortChanged(effort=effort))


class SubagentReporter:
    """Follows one subagent while it works. `last_words`: its latest answer; `calls`: the number of its tool calls."""

    def __init__(self, parent: Session, child: Session, start_event: ev.SubagentStarted) -> None:
        self._parent = parent
        self._child = child
        self._plan = start_event.plan
        self._asker = f"Asked by the subagent at {start_event.todo or start_event.title}"
        self._acts: dict[str, ev.SubagentAction] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_interval = INTERVAL
        self._began = monotonic()
        self._worked: float | None = None  # seconds, once the clock is stopped
        self._reported_at = 0.0
        self._is_closed = False
        self._step = 0
        self.last_words = ""
        self.calls = 0
        self._child.recorder.listeners.append(((ev.Event,), self.observe))

    @property
    def acts(self) -> tuple[ev.SubagentAction, ...]:
        """Its acts, the last ones if there are many."""
        return tuple(self._acts.values())[-MAX_STORED_ACTS:]

    @property
    def final_acts(self) -> tuple[ev.SubagentAction, ...]:
        """Its acts after its end, those still running marked as cancelled."""
        return tuple(replace(act, status="cancelled") if act.status == "running" else act for act in self.acts)

    @property
    def usage(self) -> Usage:
        """The usage that the parent has not counted yet."""
        turn = self._child.state.current_turn
        counted_usage = self._parent.state.subagents[self._child.id].usage
        child_usage = self._child.state.usage
        return (
            subtract_usage(child_usage, counted_usage)
            if turn is None
            else add_usage(subtract_usage(child_usage, counted_usage), turn.usage)
        )

    @property
    def worked_ms(self) -> int:
        """The working time in ms, until now or until the clock was stopped."""
        return round((monotonic() - self._began if self._worked is None else self._worked) * 1000)

    def stop_clock(self) -> None:
        """Stop counting its working time, as it waits for others."""
        self._worked = monotonic() - self._began

    def close(self) -> None:
        """Stop reporting, and withdraw its open questions and approvals."""
        self._is_closed = True
        self._child.recorder.listeners.remove(((ev.Event,), self.observe))
        if self._timer is not None:
            self._timer.cancel()
        for approval in [request.id for request in self._parent.state.approvals.values() if self._is_ours(request)]:
            self._parent.emit_or_defer(ev.ApprovalResolved(id=approval, decision="reject_once", by="program"))
        for question in [request.id for request in self._parent.state.questions.values() if self._is_ours(request)]:
            self._parent.emit_or_defer(ev.QuestionAnswered(id=question, by="program"))

    def _is_ours(self, request: ev.ApprovalRequested | ev.QuestionAsked) -> bool:
        return request.subagent == self._child.id

    def repeat_questions(self) -> None:
        """Repeat the questions that were not answered before it was stopped."""
        for question in self._child.state.questions.values():
            self.observe(question)

    def report_verify(self, command: str, status: Literal["running", "completed", "failed"]) -> None:
        """Report that the todo's `verify` command runs, or has ended."""
        self._acts.pop("proof", None)
        self._add_act("proof", ev.SubagentAction(text=_clip(f"verify: {command}"), status=status))
        self._schedule_report()

    def report_wait(self, reason: str) -> None:
        """Report what it waits for, "" = nothing."""
        self._acts.pop("wait", None)
        if reason:
            self._add_act("wait", ev.SubagentAction(text=reason, status="running"))
        self._schedule_report()

    def observe(self, event: ev.AnyEvent) -> None:
        """Forward or record one event of the subagent."""
        if not self._forward(event) and self._record_act(event):
            self._schedule_report()

    def _forward(self, event: ev.AnyEvent) -> bool:
        emit, state = self._parent.emit_or_defer, self._parent.state
        match event:
            case ev.ApprovalRequested():
                emit(replace(event, subagent=self._child.id, reason=f"{self._asker}. {event.reason}".strip()))
            case ev.QuestionAsked():
                title = ": ".join(filter(None, [self._asker, event.title]))
                emit(replace(event, subagent=self._child.id, lasting=False, title=title))
            case ev.ApprovalResolved(id=asked) if asked in state.approvals:
                emit(event)
            case ev.QuestionAnswered(id=asked) if asked in state.questions:
                emit(event)
            case ev.MessageAppended(steers=ids) if ids:
                emit(ev.SteerDelivered(ids=ids))
            case ev.TodoVerified() if self._plan:
                emit(replace(event, plan=self._plan))
            case _:
                return False
        return True

    def _record_act(self, event: ev.AnyEvent) -> bool:
        match event:
            case ev.ToolRequested(call=call):
                self.calls += 1
                name = describe_call(event.tool, is_running=True)
                self._add_act(call, ev.SubagentAction(text=_clip(f"{name} {event.summary}"), status="running"))
            case ev.ToolFinished(call=call):
                running, past_phrase = (
                    describe_call(event.tool, is_running=is_running) for is_running in (True, False)
                )
                text = self._acts[call].text.removeprefix(running) if call in self._acts else ""
                self._acts[call] = ev.SubagentAction(text=f"{past_phrase}{text}", status=event.status)
            case ev.DocumentFinished(document=TextDocument(content=content) as said) if content and content.strip():
                self.last_words = content.strip()
                self._add_act(said.id, ev.SubagentAction(text=_clip(content)))
            case ev.ErrorRaised(message=message) | ev.Notice(level="warning", message=message):
                self._add_act(f"told {self._count}", ev.SubagentAction(text=_clip(message), status="failed"))
            case ev.StepStarted(step=step):
                self._step = step
            case ev.StepFinished() | ev.ChangeProposed() | ev.ChangeResolved():
                pass
            case _:
                return False
        return True

    def _add_act(self, key: str, act: ev.SubagentAction) -> None:
        self._acts[key] = act
        self._count += 1
        if len(self._acts) > 2 * MAX_STORED_ACTS:
            for old in list(self._acts)[:-MAX_STORED_ACTS]:
                del self._acts[old]

    def _schedule_report(self, interval: float = INTERVAL) -> None:
        if self._is_closed or (self._timer is not None and self._timer_interval <= interval):
            return
        if self._timer is not None:
            self._timer.cancel()
        wait = max(0.0, self._reported_at + interval - monotonic())
        self._timer_interval = interval
        self._timer = asyncio.get_running_loop().call_later(wait, self._report)

    def _report(self) -> None:
        self._timer, self._reported_at = None, monotonic()
        self._parent.emit(
            ev.SubagentProgressed(
                id=self._child.id,
                acts=self.acts[-MAX_SHOWN_ACTS:],
                count=self._count,
                steps=self._step,
                changed=self._count_changed(),
                usage=self.usage,
                duration_ms=self.worked_ms,
            )
        )
        approvals, questions = self._parent.state.approvals.values(), self._parent.state.questions.values()
        is_waiting = any(self._is_ours(approval) for approval in approvals) or any(
            self._is_ours(question) for question in questions
        )
        if self._worked is None and not is_waiting:
            self._schedule_report(HEARTBEAT)

    def _count_changed(self) -> int:
        """Count the files that the child changed itself, without the pending changes it has from its parent."""
        parent_changes = self._parent.review.changes
        own_changes = {
            path: change
            for path, change in self._child.review.changes.items()
            if path not in parent_changes or parent_changes[path].pending != change.pending
        }
        return len(list_changes(own_changes))


def _clip(text: str) -> str:
    return clip(" ".join(text.split()), MAX_ACT_LENGTH)


def is_granted_to_subagent(context: TurnContext, access: Access, *, keeps_effects: bool = True) -> bool:
    """Return True if the session of `context` itself has this access now. `keeps_effects`: the subagent keeps the
    effects of commands and servers, so these run only if its parent's effects are kept as well."""
    if not context.permissions.is_granted(access) or explain_blocked_edit(context.state, access) is not None:
        return False
    terminal = context.terminal
    if not keeps_effects or access not in _RUNNING or terminal.keeps_effects():
        return True
    return not terminal.is_contained and access is not Access.EXTERNAL  # without a box, every command needs approval
