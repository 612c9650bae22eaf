"""Report a subagent in its parent's session: its questions at once, its progress a few times a second."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from msgspec.structs import replace

from core.clock import monotonic
from core.engine.session.session import Session
from core.protocol import events as ev
from core.protocol.documents import TextDocument
from core.protocol.messages import Usage
from core.protocol.renames import list_changes
from core.state.call_words import describe_call
from core.state.session import add_usage, subtract_usage

INTERVAL: Final = 0.3  # seconds between two lines about the same subagent
HEARTBEAT: Final = 1.0  # seconds after which its time is told again, while it waits for nobody
MAX_SHOWN_ACTS: Final = 6  # of the latest acts
MAX_KEPT_ACTS: Final = 200  # acts that its end tells of
MAX_ACT_LENGTH: Final = 160  # characters of an act


class SubagentReporter:
    """Follows one subagent while it works. `said`: its last words; `calls`: the number of tool calls."""

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
        self._worked: float | None = None  # seconds, once they count no more
        self._reported_at = 0.0
        self._is_closed = False
        self._step = 0
        self.last_words = ""
        self.calls = 0
        self._child.recorder.listeners.append(((ev.Event,), self.observe))

    @property
    def acts(self) -> tuple[ev.SubagentAction, ...]:
        """Its acts, the last ones if there are many."""
        return tuple(self._acts.values())[-MAX_KEPT_ACTS:]

    @property
    def final_acts(self) -> tuple[ev.SubagentAction, ...]:
        """Its acts once it has stopped: none of them runs any more."""
        return tuple(replace(act, status="cancelled") if act.status == "running" else act for act in self.acts)

    @property
    def usage(self) -> Usage:
        """Usage that the parent does not count yet."""
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
        """The milliseconds that it has worked, until now or until its clock was stopped."""
        return round((monotonic() - self._began if self._worked is None else self._worked) * 1000)

    def stop_clock(self) -> None:
        """Let the time from now on not count as its own: it waits for others."""
        self._worked = monotonic() - self._began

    def close(self) -> None:
        """Report nothing more, and withdraw its open questions and approvals."""
        self._is_closed = True
        self._child.recorder.listeners.remove(((ev.Event,), self.observe))
        if self._timer is not None:
            self._timer.cancel()
        for approval in [request.id for request in self._parent.state.approvals.values() if self._is_ours(request)]:
            self._parent.emit_surely(ev.ApprovalResolved(id=approval, decision="reject_once", by="program"))
        for question in [request.id for request in self._parent.state.questions.values() if self._is_ours(request)]:
            self._parent.emit_surely(ev.QuestionAnswered(id=question, by="program"))

    def _is_ours(self, request: ev.ApprovalRequested | ev.QuestionAsked) -> bool:
        return request.subagent == self._child.id

    def repeat_questions(self) -> None:
        """Repeat the questions that nobody answered before it was stopped."""
        for question in self._child.state.questions.values():
            self.observe(question)

    def report_verify(self, command: str, status: Literal["running", "completed", "failed"]) -> None:
        """Report that the todo's `verify` command runs, or has ended."""
        self._acts.pop("proof", None)
        self._add_act("proof", ev.SubagentAction(text=_clip(f"verify: {command}"), status=status))
        self._schedule_report()

    def report_wait(self, reason: str) -> None:
        """Report what it waits for, "" = for nothing any more."""
        self._acts.pop("wait", None)
        if reason:
            self._add_act("wait", ev.SubagentAction(text=reason, status="running"))
        self._schedule_report()

    def observe(self, event: ev.AnyEvent) -> None:
        """Take in one event of the subagent."""
        if not self._forward(event) and self._record_act(event):
            self._schedule_report()

    def _forward(self, event: ev.AnyEvent) -> bool:
        emit, state = self._parent.emit_surely, self._parent.state
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
        if len(self._acts) > 2 * MAX_KEPT_ACTS:
            for old in list(self._acts)[:-MAX_KEPT_ACTS]:
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
        """Count the files that the child changed itself: what waited with the parent waits with it, too."""
        parent_changes = self._parent.review.changes
        own_changes = {
            path: change
            for path, change in self._child.review.changes.items()
            if path not in parent_changes or parent_changes[path].pending != change.pending
        }
        return len(list_changes(own_changes))


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_ACT_LENGTH else f"{line[: MAX_ACT_LENGTH - 1]}…"
