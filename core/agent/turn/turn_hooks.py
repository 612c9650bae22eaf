"""The hooks of a turn: asked before its prompt is sent, told of each answer, and asked when it is about to end.

A subagent's turn is begun and ended by hooks of its own, wherever it was started from: each of its turns comes past
here.
"""

from __future__ import annotations

from msgspec import Struct, field

from core.agent.context.prompt_tags import escape_tags
from core.agent.context.reminders import append_reminder
from core.agent.turn.turn_context import TurnContext
from core.errors import AgentTuiError
from core.hooks.dialect_names import HookEvent
from core.hooks.session_hooks import HookOccasion, HookOutcome
from core.protocol.events import Notice, SteerReturned

MAX_LOOPS = 100  # times in a row that hooks without a limit of their own keep a turn going


class PromptRefused(AgentTuiError):
    """A hook refused a prompt; the model was sent nothing of it."""

    code = "hook_refused"


class TurnHooks(Struct, eq=False):
    """The hooks of one turn. `_loops`: times that hooks have kept it going; `_asked`: messages that hooks let pass."""

    _context: TurnContext
    _loops: int = 0
    _asked: set[str] = field(default_factory=set)
    _last_words: str = ""

    @property
    def _is_subagent(self) -> bool:
        return self._context.permissions.subagent_limits is not None

    async def begin(self, prompt: str) -> str:
        """Ask the hooks about the prompt, read anew; return what they add to it. Raises `PromptRefused`."""
        hooks = self._context.hooks
        hooks.pop_stop()  # one that was said outside of a turn stops none
        await hooks.refresh()
        contexts = [] if self._is_subagent else [(await self._begin_session()).context]
        event = HookEvent.SUBAGENT_START if self._is_subagent else HookEvent.BEFORE_PROMPT
        fields = {"task": prompt, "prompt": prompt, "attachments": []}
        outcome = await hooks.run(HookOccasion(event=event, fields=fields, subjects=self._list_subjects(event)))
        if outcome.is_denied:
            hint = "Nothing of it was sent. /hooks lists the hooks."
            raise PromptRefused(outcome.describe_refusal(), hint=hint)
        return "\n".join(filter(None, (*contexts, outcome.context)))

    async def _begin_session(self) -> HookOutcome:
        """Tell the hooks, with the first prompt since the session was opened, that it goes on."""
        context = self._context
        if context.hooks.is_begun:
            return HookOutcome()
        context.hooks.is_begun = True
        source = "resume" if len(context.state.turns) > 1 else "startup"
        return await context.hooks.begin_session(source, context.state.mode)

    def _list_subjects(self, event: HookEvent) -> tuple[str, ...]:
        return (
            (self._context.hooks.get_agent_type(),) if event is not HookEvent.BEFORE_PROMPT else ("UserPromptSubmit",)
        )

    async def check_steers(self) -> None:
        """Ask the hooks about messages that wait for the running turn; refused ones go back to the user."""
        context = self._context
        if self._is_subagent or not context.hooks.has(HookEvent.BEFORE_PROMPT):
            return
        for identity, text in list(context.state.pending_steers.items()):
            if identity in self._asked:
                continue
            self._asked.add(identity)
            occasion = HookOccasion(
                event=HookEvent.BEFORE_PROMPT,
                fields={"prompt": text, "attachments": []},
                subjects=self._list_subjects(HookEvent.BEFORE_PROMPT),
            )
            outcome = await context.hooks.run(occasion)
            if outcome.is_denied and identity in context.state.pending_steers:
                context.emit(SteerReturned(id=identity, text=text))
                context.emit(Notice(level="warning", message=outcome.describe_refusal()))
            elif outcome.context:
                self._append(outcome.context)

    async def report_answer(self, text: str) -> None:
        """Tell the hooks what the model has written."""
        self._last_words = text or self._last_words
        hooks = self._context.hooks
        if text and hooks.has(HookEvent.AFTER_RESPONSE):
            await hooks.run(HookOccasion(event=HookEvent.AFTER_RESPONSE, fields={"text": text}))

    async def should_continue(self, goes_on: bool) -> bool:
        """True if the turn goes on. `goes_on`: it would without hooks, which only one of a call that has just run can
        stop; a turn that would end goes on with what hooks say."""
        if self._context.hooks.pop_stop():
            return False
        if goes_on:
            return True
        outcome = await self._report_stop("completed")
        if not outcome.followup or outcome.ends_turn or self._loops >= MAX_LOOPS:
            return False
        self._loops += 1
        self._append(outcome.followup)
        return True

    async def report_failure(self) -> None:
        """Tell the hooks that the turn ends with an error; nothing that they say can make it go on."""
        await self._report_stop("error")

    async def _report_stop(self, status: str) -> HookOutcome:
        event = HookEvent.SUBAGENT_STOP if self._is_subagent else HookEvent.STOP
        fields = {
            "status": status,
            "loop_count": self._loops,
            "stop_hook_active": self._loops > 0,
            "last_assistant_message": self._last_words,
            "summary": self._last_words,
            "modified_files": sorted(self._context.state.changes),
        }
        subjects = self._list_subjects(event) if self._is_subagent else ("Stop",)
        return await self._context.hooks.run(
            HookOccasion(event=event, fields=fields, subjects=subjects, loops=self._loops)
        )

    def _append(self, text: str) -> None:
        append_reminder(self._context.emit, f"A hook says:\n{escape_tags(text)}")

    def append_context(self, text: str) -> None:
        """Append what hooks add to the prompt, if anything."""
        if text:
            self._append(text)
