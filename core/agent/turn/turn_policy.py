"""Decides whether a turn continues: the rules of plan and build turns, and the hooks of the user.

A plan turn ends with a question or a plan, a build when no todo is left. Hooks are run before a prompt is sent, after
every answer, and when the turn is about to end. A subagent's turn has hooks for its start and stop, wherever it was
started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from core.agent.base.prompt_tags import escape_tags
from core.agent.context.reminders import append_reminder
from core.agent.context.turn_context import BuildTarget, TurnContext
from core.agent.debug.debug_policy import DebugPolicy
from core.agent.gate.capabilities import UserPrompter
from core.agent.gate.edit_diagnostics import EditDiagnostics
from core.agent.gate.gated_call import GatedCall
from core.agent.turn.todo_following import TodoFollower
from core.errors import AgentTuiError
from core.hooks.dialect_names import HookEvent
from core.hooks.session_hooks import HookOccasion, HookOutcome
from core.plans.todo_graph import DONE, find_ready
from core.prompts import render
from core.protocol.events import AnyEvent, Notice, SteerReturned
from core.state.session import SessionState
from core.tools.builtin.plans import format_todos

MAX_REMINDERS = 2  # reminders to continue a build in a row without progress
PLAN_ENDING_TOOLS = frozenset({"create_plan", "update_plan", "switch_mode"})
MAX_LOOPS = 100  # continuations of one turn by hooks without a limit


class TurnPolicy(Struct, eq=False):
    """The policy of one turn. `_has_commands_alone`: True if the model has no other tool than the shell;
    `_wants_plan`: it ends with a plan or a question, whatever the model has read."""

    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    _build: BuildTarget
    _todos: TodoFollower
    _debug_policy: DebugPolicy
    _diagnostics: EditDiagnostics
    _has_commands_alone: Callable[[], bool]
    _wants_plan: bool = False
    _has_read: bool = False
    _has_plan_ended: bool = False
    _reminder_count: int = 0
    _done_count: int = 0

    def record_calls(self, calls: Sequence[GatedCall]) -> None:
        """Record the calls of a step that has run."""
        self._has_read = self._has_read or any(call.status == "completed" for call in calls)
        self._has_plan_ended = self._has_plan_ended or any(map(_is_plan_end, calls))

    async def should_continue(self, text: str, *, is_over: bool = False) -> bool:
        """True if the turn continues after an answer without calls. `is_over`: the answer declares the work done, so
        that only a build continues."""
        if is_over:
            return bool(self._build.plan) and await self._should_continue_build()
        if await self._debug_policy.should_continue():
            return True
        if text.rstrip().endswith("?"):
            return False
        if await self._diagnostics.should_continue():
            return True
        if self._build.plan:
            return await self._should_continue_build()
        return self._should_continue_plan()

    def _should_continue_plan(self) -> bool:
        """True if a plan turn that has read code ends without a question or a plan; it is asked for once, or twice if
        the client wants one."""
        is_owed = self.lacks_plan or (self._state.mode == "plan" and self._has_read and not self._has_plan_ended)
        if not is_owed or self._reminder_count >= (MAX_REMINDERS if self._wants_plan else 1):
            return False
        self._reminder_count += 1
        append_reminder(self._emit, render("reminders/plan_owed"))
        return True

    @property
    def lacks_plan(self) -> bool:
        """True if a plan or a question is wanted, and the model has handed in neither."""
        return self._wants_plan and self._state.mode == "plan" and not self._has_plan_ended

    async def _should_continue_build(self) -> bool:
        await self._todos.complete_current()
        open_todos = [todo for todo in self._todos.select_wanted(self._state.todos) if todo.status not in DONE]
        done_count = len(self._state.todos) - len(open_todos)
        self._reminder_count = 0 if done_count > self._done_count else self._reminder_count
        self._done_count = done_count
        if not open_todos:
            return False
        if self._reminder_count >= MAX_REMINDERS:
            count = "one todo is" if len(open_todos) == 1 else f"{len(open_todos)} todos are"
            self._emit(
                Notice(
                    level="info",
                    message=f"The build stopped: {count} left.",
                    hint="Building again continues from there (b in the plan, or /build).",
                )
            )
            return False
        self._reminder_count += 1
        now = next((todo.id for todo in open_todos if todo.status == "in_progress"), "")
        ready = [todo.id for todo in self._todos.select_wanted(find_ready(self._state.todos))]
        by_file = self._state.todos_plan_path if self._has_commands_alone() else ""
        reminder = render("reminders/build_left", todos=format_todos(open_todos), now=now, ready=ready, by_file=by_file)
        append_reminder(self._emit, reminder)
        self._todos.known = self._state.todos
        return True


def _is_plan_end(call: GatedCall) -> bool:
    """True for a call that writes a plan, or asks a question that the user left open."""
    if call.status != "completed":
        return False
    prompter = call.capability
    return call.name in PLAN_ENDING_TOOLS or (
        isinstance(prompter, UserPrompter) and bool(prompter.questions) and not prompter.answers
    )


class PromptRefused(AgentTuiError):
    """A hook refused a prompt; nothing of it was sent."""

    code = "hook_refused"


class TurnHooks(Struct, eq=False):
    """The hooks of one turn. `last_answer`: the latest text of it; `_loops`: the number of continuations by hooks;
    `_asked`: ids of checked messages."""

    _context: TurnContext
    _loops: int = 0
    _asked: set[str] = field(default_factory=set)
    last_answer: str = ""

    @property
    def _is_subagent(self) -> bool:
        return self._context.permissions.subagent_limits is not None

    async def begin(self, prompt: str) -> str:
        """Reload the hooks and run them for the prompt; return their additions to it. Raises `PromptRefused`."""
        hooks = self._context.hooks
        hooks.pop_stop()  # A stop from outside of a turn does not count.
        await hooks.refresh()
        contexts = [] if self._is_subagent else [(await self._begin_session()).context]
        if self._context.origin.cause == "job":  # there is no prompt
            return "\n".join(filter(None, contexts))
        event = HookEvent.SUBAGENT_START if self._is_subagent else HookEvent.BEFORE_PROMPT
        fields = {"task": prompt, "prompt": prompt, "attachments": []}
        outcome = await hooks.run(HookOccasion(event=event, fields=fields, subjects=self._list_subjects(event)))
        if (refusal := outcome.describe_refusal()) is not None:
            raise PromptRefused(refusal, hint="Nothing was sent. /hooks lists the hooks.")
        return "\n".join(filter(None, (*contexts, outcome.context)))

    async def _begin_session(self) -> HookOutcome:
        """Run the hooks for the start of the session, with the first prompt since it was opened."""
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
        """Run the hooks for messages that wait for the running turn; refused ones are returned to the user."""
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
            refusal = outcome.describe_refusal()
            if refusal is not None and identity in context.state.pending_steers:
                context.emit(SteerReturned(id=identity, text=text))
                context.emit(Notice(level="warning", message=refusal))
            elif outcome.context:
                self.append_context(outcome.context)

    async def report_answer(self, text: str) -> None:
        """Run the hooks for the text of an answer."""
        self.last_answer = text or self.last_answer
        hooks = self._context.hooks
        if text and hooks.has(HookEvent.AFTER_RESPONSE):
            await hooks.run(HookOccasion(event=HookEvent.AFTER_RESPONSE, fields={"text": text}))

    async def should_continue(self, goes_on: bool) -> bool:
        """True if the turn continues. `goes_on`: True if it would without hooks; then only a hook of a call can stop
        it.

        A turn that would end continues with the follow-up of hooks."""
        if self._context.hooks.pop_stop():
            return False
        return goes_on or bool(await self.request_followup())

    async def request_followup(self) -> str:
        """Run the hooks for a turn that is about to end. Return their follow-up, which is appended to the history, "" =
        the turn ends."""
        outcome = await self._report_stop("completed")
        if not outcome.followup or outcome.ends_turn or self._loops >= MAX_LOOPS:
            return ""
        self._loops += 1
        self.append_context(outcome.followup)
        return outcome.followup

    async def report_failure(self) -> None:
        """Run the hooks for a turn that ends with an error; they can't continue it."""
        await self._report_stop("error")

    async def _report_stop(self, status: str) -> HookOutcome:
        event = HookEvent.SUBAGENT_STOP if self._is_subagent else HookEvent.STOP
        fields = {
            "status": status,
            "loop_count": self._loops,
            "stop_hook_active": self._loops > 0,
            "last_assistant_message": self.last_answer,
            "summary": self.last_answer,
            "modified_files": sorted(self._context.state.changes),
        }
        subjects = self._list_subjects(event) if self._is_subagent else ("Stop",)
        return await self._context.hooks.run(
            HookOccasion(event=event, fields=fields, subjects=subjects, loops=self._loops)
        )

    def append_context(self, text: str) -> None:
        """Append a text of hooks to the history, if any."""
        if text:
            append_reminder(self._context.emit, format_hook_text(text))


def format_hook_text(text: str) -> str:
    """Format a text of hooks for a model."""
    return f"A hook says:\n{escape_tags(text)}"
