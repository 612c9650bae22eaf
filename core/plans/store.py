"""The plan files of a workspace. They are written to the project itself: the one exception to the shadow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from core.plans.frontmatter import Page, PlanError, new_page, parse, render, update
from core.plans.graph import check
from core.plans.model import FOLDER, SUFFIX, new_path
from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan


class PlanFiles(Protocol):
    """What the store needs of a workspace: whole files by workspace-relative path, writes atomic."""

    def read(self, rel: str) -> bytes | None:
        """None: there is no such file."""
        ...

    def write(self, rel: str, data: bytes) -> None:
        """Create (with its folders) or replace."""
        ...

    def names(self, rel: str) -> Sequence[str]:
        """The names in a folder; empty when it does not exist."""
        ...


class BrokenPlan(Struct, frozen=True, kw_only=True):
    path: str
    problem: str


class PlanListing(Struct, frozen=True, kw_only=True):
    """All plan files: those that can be read, and what is wrong with the others."""

    plans: tuple[Plan, ...]
    broken: tuple[BrokenPlan, ...] = ()


class PlanStore:
    """Create, read and change plans. Every change starts from the file as it is now, so a user's own edits stay."""

    def __init__(self, files: PlanFiles) -> None:
        self._files = files

    def create(self, plan: Plan) -> Plan:
        """Write a new file; `plan.path` is ignored and set in the answer. `ToolInputInvalid` for a bad graph."""
        check(plan.todos)
        path = new_path(plan.name)
        created = replace(plan, path=path, body=plan.body.strip("\n"))
        self._files.write(path, render(new_page(created)).encode())
        return created

    def load(self, path: str) -> Plan:
        """Raises `PlanError` when the file is missing or broken."""
        return self._open(path)[0]

    def list(self) -> PlanListing:
        """Every plan in the plans folder, by path."""
        plans, broken = [], []
        for name in sorted(self._files.names(FOLDER)):
            if not name.endswith(SUFFIX):
                continue
            path = f"{FOLDER}/{name}"
            try:
                plans.append(self.load(path))
            except PlanError as error:
                broken.append(BrokenPlan(path=path, problem=error.message))
        return PlanListing(plans=tuple(plans), broken=tuple(broken))

    def edit(
        self,
        path: str,
        *,
        name: str | None = None,
        overview: str | None = None,
        body: str | None = None,
        todos: Sequence[Todo] | None = None,
    ) -> Plan:
        """Change what is given. `ToolInputInvalid` for a bad graph, `PlanError` for a broken file; nothing is lost."""
        plan, page = self._open(path)
        given = {"name": name, "overview": overview, "body": body, "todos": None if todos is None else tuple(todos)}
        after = replace(plan, **{key: value for key, value in given.items() if value is not None})
        check(after.todos)
        return self._save(path, plan, after, page)

    def set_todo(self, path: str, todo: str, status: TodoStatus) -> Plan:
        """Set the status of one todo."""
        plan, page = self._open(path)
        if all(each.id != todo for each in plan.todos):
            known = ", ".join(each.id for each in plan.todos) or "none"
            raise PlanError(f"{path} has no todo {todo}.", hint=f"Its todos: {known}.")
        todos = tuple(replace(each, status=status) if each.id == todo else each for each in plan.todos)
        return self._save(path, plan, replace(plan, todos=todos), page)

    def _open(self, path: str) -> tuple[Plan, Page]:
        data = self._files.read(path)
        if data is None:
            raise PlanError(
                f"There is no plan {path}.", hint="It may have been moved or deleted; list the plans again."
            )
        try:
            return parse(data.decode("utf-8"), path)
        except UnicodeDecodeError as error:
            raise PlanError(f"{path} is no UTF-8 text (byte {error.start}).", hint="Save it as UTF-8.") from error

    def _save(self, path: str, before: Plan, after: Plan, page: Page) -> Plan:
        if after != before:
            update(page, after)
            self._files.write(path, render(page).encode())
        return after
