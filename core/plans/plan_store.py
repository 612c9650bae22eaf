"""The plan files of a workspace, the one exception to the shadow: they are written to the project itself.

`core/workspace/plan_folder.py` limits the paths. A file may be edited by its user and by other tools at any moment, so
every change starts from the current file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from core.errors import PathRefused
from core.plans.plan_file import (
    PlanError,
    PlanFault,
    PlanSource,
    locate_graph_faults,
    parse_plan_file,
    read_plan_file,
    render_new_plan,
    rewrite_plan,
)
from core.plans.plan_merge import MergedPlan, merge_plans
from core.plans.todo_graph import check_graph, make_plan_path
from core.protocol.documents import Plan, Todo, TodoStatus


class PlanFiles(Protocol):
    """The plan files of a project by path, read and written whole. Raises `PathRefused` for a path that is no
    plan's."""

    @property
    def place(self) -> str:
        """The folder of new plans."""

    def to_path(self, path: str) -> str:
        """Return the canonical path of a plan."""

    def read(self, rel: str) -> bytes | None:
        """Read a whole file; None = there is no such file."""

    def write(self, rel: str, data: bytes) -> None:
        """Create a file (with its folders) or replace it."""

    def list_paths(self) -> Sequence[str]:
        """List the plans in the folder; empty if it does not exist."""


class BrokenPlan(Struct, frozen=True, kw_only=True):
    """A plan file that can't be read, and the reason."""

    path: str
    problem: str


class PlanListing(Struct, frozen=True, kw_only=True):
    """All plan files: the readable ones, and the problems of the others."""

    plans: tuple[Plan, ...]
    broken: tuple[BrokenPlan, ...] = ()


class PlanStore:
    """Creates, reads and changes plans. Every change starts from the current file, so a user's edits survive."""

    def __init__(self, files: PlanFiles) -> None:
        self._files = files

    def create(self, plan: Plan) -> Plan:
        """Write a new file at a new path, and return the plan with that path. Raises `ToolInputInvalid` for a bad
        graph."""
        check_graph(plan.todos)
        path = make_plan_path(plan.name, self.place)
        new_plan = replace(plan, path=path, body=plan.body.strip("\n"))
        self._files.write(path, render_new_plan(new_plan).encode())
        return new_plan

    @property
    def place(self) -> str:
        """The folder of new plans: relative to the project, or absolute if it is outside of it."""
        return self._files.place

    def to_path(self, path: str) -> str:
        """Return the canonical path of a plan. Raises `PathRefused` for any other path."""
        return self._files.to_path(path)

    def list_paths(self) -> list[str]:
        """List the paths of all files in the plans folder with the name of a plan."""
        return sorted(self._files.list_paths())

    def read_text(self, path: str) -> str:
        """Return the text of a plan's file. Raises `PlanError` if it is missing or not text."""
        data = self._files.read(path)
        if data is None:
            hint = "It may have been moved or deleted; list the plans again."
            raise PlanError(f"There is no plan {path}.", hint=hint)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise PlanError(f"{path} is not UTF-8 text (byte {error.start}).", hint="Save it as UTF-8.") from error

    def load(self, path: str) -> Plan:
        """Load one plan. Raises `PlanError` if the file is missing or broken."""
        return self._open(path)[0]

    def list_plans(self) -> PlanListing:
        """List every plan in the plans folder, by path."""
        plans, broken_plans = [], []
        for path in self.list_paths():
            try:
                plans.append(self.load(path))
            except (PlanError, PathRefused) as error:
                broken_plans.append(BrokenPlan(path=path, problem=error.message))
        return PlanListing(plans=tuple(plans), broken=tuple(broken_plans))

    def edit(
        self,
        path: str,
        *,
        name: str | None = None,
        overview: str | None = None,
        body: str | None = None,
        todos: Sequence[Todo] | None = None,
        base: Plan | None = None,
    ) -> MergedPlan:
        """Change the fields that are not None, and merge them with changes in the file since `base` (None: there are
        none).

        Raises `ToolInputInvalid` for a bad graph and `PlanError` for a broken file; nothing is lost.
        """
        plan, page = self._open(path)
        start = plan if base is None else base
        fields = {"name": name, "overview": overview, "body": body, "todos": None if todos is None else tuple(todos)}
        target_plan = replace(start, **{key: value for key, value in fields.items() if value is not None})
        if todos is not None:
            check_graph(target_plan.todos, start.todos)
        merge_result = merge_plans(start, target_plan, plan)
        return merge_result._replace(plan=self._save(path, plan, merge_result.plan, page))

    def set_todo(self, path: str, todo: str, status: TodoStatus) -> Plan:
        """Set the status of one todo."""
        plan, page = self._open(path)
        if all(plan_todo.id != todo for plan_todo in plan.todos):
            known_ids = ", ".join(plan_todo.id for plan_todo in plan.todos) or "none"
            raise PlanError(f"{path} has no todo {todo}.", hint=f"Its todos: {known_ids}.")
        todos = tuple(
            replace(plan_todo, status=status) if plan_todo.id == todo else plan_todo for plan_todo in plan.todos
        )
        return self._save(path, plan, replace(plan, todos=todos), page)

    def find_faults(self, path: str) -> tuple[PlanFault, ...]:
        """Find every fault of a file, by line. Raises `PlanError` if it can't be read at all."""
        plan, page, faults = read_plan_file(self.read_text(path), path)
        return tuple(sorted((*faults, *locate_graph_faults(plan, page)), key=lambda fault: fault.line))

    def _open(self, path: str) -> tuple[Plan, PlanSource]:
        return parse_plan_file(self.read_text(path), path)

    def _save(self, path: str, before: Plan, after: Plan, page: PlanSource) -> Plan:
        if after != before:
            self._files.write(path, rewrite_plan(page, after).encode())
        return after
