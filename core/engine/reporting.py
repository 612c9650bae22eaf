"""What a subagent does, told in its parent's session: what it asks, at once; what it is at, a few times a second."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from msgspec.structs import replace

from core.clock import monotonic
from core.engine.live import LiveSession
from core.protocol import events as ev
from core.protocol.documents import Text
from core.protocol.messages import Usage
from core.protocol.moves import listed
from core.sessions.usage import rest, total

EVERY: Final = 0.3  # seconds between two lines about the same subagent
SHOWN: Final = 6  # of the latest acts
KEPT: Final = 200  # acts that its end tells of
LONGEST: Final = 160  # characters of an act


class Reporter:
    """Listens to one child as long as it is at work. `said`: the last thing that it said; `calls` of tools."""

    def __init__(self, parent: LiveSession, child: LiveSession, plan: str, todo: str) -> None:
        self._parent = parent.runtime
        self._child = child.runtime
        self._plan = plan
        self._who = f"Asked by the subagent at {todo}"
        self._acts: dict[str, ev.Act] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0
        self._step = 0
        self.said = ""
        self.calls = 0
        self._child.listener = self.note

    @property
    def acts(self) -> tuple[ev.Act, ...]:
        """What it did, the last ones if there are many."""
        return tuple(self._acts.values())[-KEPT:]

    @property
    def all_acts(self) -> tuple[ev.Act, ...]:
        """The same when it has stopped: nothing runs any more."""
        return tuple(replace(act, status="cancelled") if act.status == "running" else act for act in self.acts)

    @property
    def usage(self) -> Usage:
        """What was used and is not counted in the parent yet."""
        turn = self._child.state.turn
        known = self._parent.state.subagents[self._child.id].usage
        mine = self._child.state.usage
        return rest(mine, known) if turn is None else total(rest(mine, known), turn.usage)

    def close(self) -> None:
        """It has stopped: nothing more is told, and what it asked is withdrawn."""
        self._child.listener = None
        if self._timer is not None:
            self._timer.cancel()
        for approval in [each.id for each in self._parent.state.approvals.values() if self._is_ours(each)]:
            self._parent.emit_surely(ev.ApprovalResolved(id=approval, decision="reject_once", by="program"))
        for question in [each.id for each in self._parent.state.questions.values() if self._is_ours(each)]:
            self._parent.emit_surely(ev.QuestionAnswered(id=question, by="program"))

    def _is_ours(self, asked: ev.ApprovalRequested | ev.QuestionAsked) -> bool:
        return asked.subagent == self._child.id

    def ask_again(self) -> None:
        """What it asked before it was stopped, and nobody has answered."""
        for asked in self._child.state.questions.values():
            self.note(asked)

    def proves(self, command: str, how: Literal["running", "completed", "failed"]) -> None:
        """The command of its todo runs, or has ended."""
        self._acts.pop("proof", None)
        self._add("proof", ev.Act(text=_line(f"verify: {command}"), status=how))
        self._tell_soon()

    def note(self, event: ev.AnyEvent) -> None:
        """One event of the child."""
        if not self._forwarded(event) and self._is_news(event):
            self._tell_soon()

    def _forwarded(self, event: ev.AnyEvent) -> bool:
        emit, state = self._parent.emit_surely, self._parent.state
        match event:
            case ev.ApprovalRequested():
                emit(replace(event, subagent=self._child.id, reason=f"{self._who}. {event.reason}".strip()))
            case ev.QuestionAsked():
                title = ": ".join(filter(None, [self._who, event.title]))
                emit(replace(event, subagent=self._child.id, lasting=False, title=title))
            case ev.ApprovalResolved(id=asked) if asked in state.approvals:
                emit(event)
            case ev.QuestionAnswered(id=asked) if asked in state.questions:
                emit(event)
            case ev.MessageAppended(steers=ids) if ids:
                emit(ev.SteerDelivered(ids=ids))
            case ev.TodoVerified():
                emit(replace(event, plan=self._plan))
            case _:
                return False
        return True

    def _is_news(self, event: ev.AnyEvent) -> bool:
        match event:
            case ev.ToolRequested(call=call):
                self.calls += 1
                name = "$" if event.tool == "run_terminal_cmd" else event.tool
                self._add(call, ev.Act(text=_line(f"{name} {event.summary}"), status="running"))
            case ev.ToolFinished(call=call):
                text = self._acts[call].text if call in self._acts else event.tool
                self._acts[call] = ev.Act(text=text, status=event.status)
            case ev.DocumentFinished(document=Text(content=content) as said) if content and content.strip():
                self.said = content.strip()
                self._add(said.id, ev.Act(text=_line(content)))
            case ev.ErrorRaised(message=message) | ev.Notice(level="warning", message=message):
                self._add(f"told {self._count}", ev.Act(text=_line(message), status="failed"))
            case ev.StepStarted(step=step):
                self._step = step
            case ev.StepFinished() | ev.ChangeProposed() | ev.ChangeResolved():
                pass
            case _:
                return False
        return True

    def _add(self, key: str, act: ev.Act) -> None:
        self._acts[key] = act
        self._count += 1
        if len(self._acts) > 2 * KEPT:
            for old in list(self._acts)[:-KEPT]:
                del self._acts[old]

    def _tell_soon(self) -> None:
        if self._timer is None:
            wait = max(0.0, self._at + EVERY - monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._tell)

    def _tell(self) -> None:
        self._timer, self._at = None, monotonic()
        self._parent.emit(
            ev.SubagentProgressed(
                id=self._child.id,
                acts=self.acts[-SHOWN:],
                count=self._count,
                steps=self._step,
                changed=len(listed(self._child.review.changes)),
                usage=self.usage,
            )
        )


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
