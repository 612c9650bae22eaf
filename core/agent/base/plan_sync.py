"""Plan files and the session: taking in how a file is now, and reporting what did not get into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from core.errors import AgentTuiError
from core.plans.plan_merge import MergedPlan, PlanConflict
from core.plans.plan_store import PlanStore
from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, Notice, PlanUpdated, TodoChanged
from core.state.session import SessionState

MAX_SHOWN = 2_000  # characters of what was not taken; the conversation has it in full
MAX_NAMED = 8


def _build_clash_notice(path: str, clashes: Sequence[PlanConflict]) -> Notice:
    """Build the notice of a clash: the file won, and what it won over is said in full, so that it can be put back."""
    details = "; ".join(f"{clash.where}: {clash.dropped}" for clash in clashes[:MAX_NAMED])
    suffix = f" (and {len(clashes) - MAX_NAMED} more)" if len(clashes) > MAX_NAMED else ""
    return Notice(
        level="warning",
        message=f"{path} was changed outside at the same place; the file was left as it is there.",
        hint=f"Not taken: {details[:MAX_SHOWN]}{suffix}",
    )


class PlanSync(Struct, eq=False):
    """The plan files of one session, kept in step with its todos."""

    store: PlanStore
    state: SessionState
    emit: Callable[[AnyEvent], None]
    _reported: str = ""

    def publish(self, merged_plan: MergedPlan) -> None:
        """Emit what a merge made of a plan, and what did not get into it."""
        self.emit(PlanUpdated(plan=merged_plan.plan))
        if merged_plan.conflicts:
            self.emit(_build_clash_notice(merged_plan.plan.path, merged_plan.conflicts))

    def report_trouble(self, trouble: AgentTuiError) -> None:
        """Notify the user, once for each such trouble, that the plan's file can't be read or written."""
        if self._reported != trouble.message:
            self._reported = trouble.message
            hint = f"{trouble.hint} Until then the todos go on without the file.".strip()
            self.emit(Notice(level="warning", message=trouble.message, hint=hint))

    def refresh(self) -> bool:
        """Take in what became of the active plan's file. True if there was something. Trouble is reported once."""
        path = self.state.todos_plan_path
        if not path:
            return False
        known_plan = self.state.plans.get(path)
        try:
            now = self.store.load(path)
            if now == known_plan:
                self._reported = ""
                return False
            todos = self.state.todos
            is_behind = (
                known_plan is not None and known_plan.todos != todos
            )  # the file could not be written when they changed
            merged_plan = self.store.edit(path, todos=todos, base=known_plan) if is_behind else MergedPlan(plan=now)
        except AgentTuiError as trouble:
            self.report_trouble(trouble)
            return False
        self.publish(merged_plan)
        self.emit(TodoChanged(todos=merged_plan.plan.todos, plan=path))
        return True

    def save_todos(self, path: str, todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
        """Merge the task list into its plan file and return it. A file that can't be written is a notice."""
        try:
            merged_plan = self.store.edit(path, todos=todos, base=self.state.plans.get(path))
        except AgentTuiError as error:
            self.report_trouble(error)
            return todos
        self.publish(merged_plan)
        return merged_plan.plan.todos
