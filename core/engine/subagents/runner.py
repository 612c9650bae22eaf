"""Run one subagent in a session of its own: its turns, what the parent is told of them, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.budget import SubagentLimits
from core.agent.mentions.sources import PromptSurroundings
from core.engine.session.session import Session
from core.engine.session.turns import ask_model, reserve_turn, start_turn
from core.engine.subagents.progress_report import SubagentReporter
from core.protocol.events import EffortChanged, ModelChanged, SubagentFinished, SubagentStarted, TurnEnd
from core.protocol.messages import Effort

MAX_LAST_WORDS: Final = 2_000  # characters of its last words that are kept


class SubagentEnd(Struct, frozen=True, kw_only=True):
    """The end of a subagent's run; `message` says why its work is not done."""

    reason: TurnEnd
    message: str = ""


class SubagentRunner(ABC):
    """Runs one subagent. `close` has to be called, whatever happened."""

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
        """Run until it has ended and nothing of it runs any more. Raises `AgentTuiError`."""
        end = await self.work()
        await self.child.terminal.close()
        self.report_end(end)
        return end

    async def run_turn(
        self, prompt: str, instruction: str, surroundings: PromptSurroundings | None = None
    ) -> SubagentEnd:
        """Run one turn. `instruction`: what its model is sent in place of the prompt, "" = that; `surroundings`: those
        that the prompt was sent in."""
        child = self.child
        await reserve_turn(child)
        child.call_permissions.requested_tools = self._requested_tools
        start_turn(child, partial(ask_model, prompt=prompt, surroundings=surroundings, instruction=instruction), prompt)
        await child.turn_slot.wait_ended()
        turn = child.state.turns[-1]
        return SubagentEnd(reason=turn.reason or "failed", message=turn.message)

    def report_end(self, end: SubagentEnd) -> None:
        """Report, once, that it has stopped."""
        if self._is_finished:
            return
        self._is_finished = True
        self.parent.call_permissions.record_foreign(self.child.state.foreign_sources)
        self.reporter.close()
        self.parent.emit_surely(
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
        """Stop it if it still works, save what it has, and close its session."""
        await self.child.stop_turn()
        await self.child.terminal.close()
        self.report_end(end)
        self.parent.subagents.pop(self.id, None)
        await self.child.close()


def choose_model(child: Session, model: str, effort: Effort | Literal[""]) -> None:
    """Set model and effort of a subagent, "" = those of the job."""
    model = model or child.settings.resolve_route("chat").model
    if model and model != child.state.model:
        child.emit(ModelChanged(model=model))
    if effort != child.state.model_choices.effort:
        child.emit(EffortChanged(effort=effort))
