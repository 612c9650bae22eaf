"""Keeps plan files and the todos of a session in step, and reports conflicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from core.errors import AgentTuiError
from core.plans.plan_merge import MergedPlan, PlanConflict
from core.plans.plan_store import PlanStore
from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, Notice, PlanUpdated, TodoChanged
from core.state.session import SessionState

MAX_SHOWN = 2_000  # characters of dropped text in a notice; the conversation has all of it
MAX_NAMED = 8


def _build_conflict_notice(path: str, conflicts: Sequence[PlanConflict]) -> Notice:
    """Build the notice of conflicts, in which the file wins. It quotes the dropped text, so that it can be restored."""
    details = "; ".join(f"{conflict.where}: {conflict.dropped}" for conflict in conflicts[:MAX_NAMED])
    suffix = f" (and {len(conflicts) - MAX_NAMED} more)" if len(conflicts) > MAX_NAMED else ""
    return Notice(
        level="warning",
        message=f"{path} was also edited there outside the agent; the file was left as it is.",
        hint=f"Not saved: {details[:MAX_SHOWN]}{suffix}",
    )


class PlanSync(Struct, eq=False):
    """The plan files of one session."""

    store: PlanStore
    state: SessionState
    emit: Callable[[AnyEvent], None]
    _reported: str = ""

    def publish(self, merged_plan: MergedPlan) -> None:
        """Emit the merged plan and its conflicts."""
        self.emit(PlanUpdated(plan=merged_plan.plan))
        if merged_plan.conflicts:
            self.emit(_build_conflict_notice(merged_plan.plan.path, merged_plan.conflicts))

    def report_error(self, error: AgentTuiError) -> None:
        """Notify the user that the plan's file can't be read or written, but not twice in a row of the same error."""
        if self._reported != error.message:
            self._reported = error.message
            hint = f"{error.hint} Until then the todos are kept without the file.".strip()
            self.emit(Notice(level="warning", message=error.message, hint=hint))

    def refresh(self) -> bool:
        """Load the active plan's file if it changed. Returns True if it did. Errors are reported."""
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
            # The file could not be written when the todos changed.
            is_behind = known_plan is not None and known_plan.todos != todos
            merged_plan = self.store.edit(path, todos=todos, base=known_plan) if is_behind else MergedPlan(plan=now)
        except AgentTuiError as error:
            self.report_error(error)
            return False
        self.publish(merged_plan)
        self.emit(TodoChanged(todos=merged_plan.plan.todos, plan=path))
        return True

    def save_todos(self, path: str, todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
        """Merge the task list into its plan file and return it. A file that can't be written is a notice."""
        try:
            merged_plan = self.store.edit(path, todos=todos, base=self.state.plans.get(path))
        except AgentTuiError as error:
            self.report_error(error)
            return todos
        self.publish(merged_plan)
        return merged_plan.plan.todos
