"""The plan's controller: builds, todos and the text of the plan, and the way to the review and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace
from textual import on

from core.protocol import commands, queries
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.documents import Plan, Todo, TodoStatus
from core.protocol.review import Change
from tui.dialogs.pages import ConfirmDialog
from tui.dialogs.picker import ActionPickerDialog, PickerDialog, PickerOption
from tui.plan import messages
from tui.plan.todo_edits import change_todos, find_dependants, remove_todo
from tui.plan.todo_rows import list_open_dependencies
from tui.review.messages import TodoRequested
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.editor import EditorController
from tui.screens.controllers.panes import PaneController
from tui.text import fit_line
from tui.widgets.side_pane import SidePane

PLAN_SUFFIX: Final = ".plan.md"
RELEASE: Final = "release"
CANCEL: Final = "cancel"
STARTED: Final = frozenset({"in_progress", "completed"})


class PlanController(Controller):
    """Carries out the user's decisions in the plan panel."""

    def __init__(self, context: ScreenContext, panes: PaneController, editor: EditorController) -> None:
        super().__init__(context)
        self._panes, self._editor = panes, editor

    @property
    def is_writing(self) -> bool:
        """True while text of the plan is edited and not saved."""
        panel = self._panes.plan
        return panel is not None and panel.is_writing

    @property
    def _todos(self) -> tuple[Todo, ...]:
        plan = self.context.state.current_plan
        return self.context.state.plan_todos or (plan.todos if plan else ())

    def _get_base(self, path: str) -> Plan | None:
        """Return the base plan of an edit, so that later changes are merged instead of reverted."""
        state = self.context.state
        plan = state.plans.get(path)
        return replace(plan, todos=self._todos) if plan is not None and path == state.current_plan_path else plan

    # Plans

    @in_worker("picker")
    async def action_choose_plan(self, name: str = "") -> None:
        path = name if "/" in name else await self._find_plan(name)
        if path and await self.context.submit(commands.PlanEdit(path=path)):
            await self._panes.show("plan")

    @on(messages.PlanRequested)
    def _open_wanted_plan(self) -> None:
        self.action_choose_plan()

    @on(SidePane.PaneShown)
    @in_worker("plans")
    async def _show_plan_names(self, event: SidePane.PaneShown) -> None:
        """List the project's plans in a panel without a plan."""
        if event.name == "plan" and self.context.state.current_plan is None:
            answer = await self._list_plans()
            if answer is not None and (panel := self._panes.plan) is not None:
                panel.show_plan_names(tuple(map(_get_plan_name, answer.paths)), answer.place)

    async def _list_plans(self) -> queries.PlanFilesAnswer | None:
        return await self.context.query(queries.PlanFilesQuery(), queries.PlanFilesAnswer, "Couldn't list the plans.")

    async def _find_plan(self, name: str) -> str:
        """Return the path of the plan whose file name begins so; of several the user chooses. "" = none."""
        if (answer := await self._list_plans()) is None:
            return ""
        every = answer.paths
        paths = [path for path in every if _get_plan_name(path).startswith(name.removesuffix(PLAN_SUFFIX))]
        if not paths:
            problem = f"No plan name starts with {fit_line(name, 60)}." if every else "No plan yet."
            self.context.notify_user(problem, "/plans lists all." if every else "Ask for one in Plan mode.")
            return ""
        if len(paths) == 1:
            return paths[0]
        options = [PickerOption(path, _get_plan_name(path)) for path in paths]
        dialog = PickerDialog("Plan", options, current=self.context.state.current_plan_path)
        return await self.context.ask(dialog) or ""

    # Builds

    def action_build_plan(self, argument: str = "") -> None:
        """Build the current plan, or one by path; a single todo by id; "fresh" without the conversation; "parallel"
        with up to that many subagents at once."""
        state = self.context.state
        word, _, count = argument.partition(" ")
        if word == "parallel":
            self._build_in_parallel(count.strip())
            return
        plan, is_fresh = state.current_plan, argument == "fresh"
        todo = argument if plan is not None and any(candidate.id == argument for candidate in plan.todos) else ""
        path = state.current_plan_path if is_fresh or todo else argument or state.current_plan_path
        self._submit_build(commands.PlanBuild(path=path, todo=todo, fresh=is_fresh))

    def _build_in_parallel(self, count: str) -> None:
        workers = MAX_SUBAGENTS if not count else int(count) if count.isdecimal() and len(count) < 4 else 0
        if 1 <= workers <= MAX_SUBAGENTS:
            self._submit_build(commands.PlanBuild(path=self.context.state.current_plan_path, workers=workers))
        else:
            problem = f"{fit_line(count, 40)} is not a number of subagents."
            self.context.notify_user(problem, f"Choose from 1 to {MAX_SUBAGENTS}.")

    @on(messages.BuildRequested)
    def _build(self, event: messages.BuildRequested) -> None:
        self._submit_build(event.command)

    def _submit_build(self, command: commands.PlanBuild) -> None:
        """Submit a build of the current plan, else of one of the project's, and show its todos."""
        if self._panes.plan is not None:
            self._panes.plan.action_unfilter()
        if command.path:
            self.context.submit_soon(command)
        else:
            self._build_found_plan(command)

    @in_worker("picker")
    async def _build_found_plan(self, command: commands.PlanBuild) -> None:
        if path := await self._find_plan(""):
            self.context.submit_soon(replace(command, path=path))

    # Todos

    @on(messages.StatusRequested)
    @in_worker("commands", exclusive=False)
    async def _set_status(self, event: messages.StatusRequested) -> None:
        command = commands.TodoSet(id=event.id, status=event.status, plan=self.context.state.current_plan_path)
        if command.status in STARTED and (unmet := self._list_unmet(command.id)):
            new_status = await self._ask_about_waiting_todo(command.id, unmet)
            if new_status is None:
                return
            command = replace(command, status=new_status, anyway=True)
        waiting = find_dependants(self._todos, command.id) if command.status == "cancelled" else ()
        if not waiting:
            await self.context.submit(command)
            return
        choice = await self._ask_about_dependants(command.id, waiting)
        plan = self.context.state.current_plan
        if choice == CANCEL and plan is not None:
            todos = change_todos(self._todos, command.id, *waiting, status="cancelled")
            await self.context.submit(commands.PlanEdit(path=plan.path, todos=todos, base=self._get_base(plan.path)))
        elif choice in {RELEASE, CANCEL}:
            for todo in (command.id, *(waiting if choice == CANCEL else ())):
                plan_path = self.context.state.current_plan_path
                await self.context.submit(commands.TodoSet(id=todo, status="cancelled", plan=plan_path))

    def _list_unmet(self, todo_id: str) -> list[str]:
        by_id = {todo.id: todo for todo in self._todos}
        return list_open_dependencies(by_id[todo_id], by_id) if todo_id in by_id else []

    async def _ask_about_waiting_todo(self, todo_id: str, unmet: Sequence[str]) -> TodoStatus | None:
        """Ask about a todo with open dependencies; None: leave it alone."""
        options = (
            PickerOption("keep", "Leave it", fit_line(f"waiting for {', '.join(unmet)}", 60)),
            PickerOption("completed", "Mark completed anyway"),
            PickerOption(CANCEL, "Cancel it"),
        )
        choice = await self.context.ask(
            ActionPickerDialog(f"{fit_line(todo_id, 40)} is waiting for other todos", options)
        )
        return "completed" if choice == "completed" else "cancelled" if choice == CANCEL else None

    async def _ask_about_dependants(self, todo_id: str, waiting: tuple[str, ...]) -> str | None:
        """Ask about the todos that depend on one to cancel; None: do not cancel it."""
        names = fit_line(", ".join(waiting), 60)
        options = [
            PickerOption(RELEASE, "Continue without it", names),
            PickerOption(CANCEL, "Cancel those too", names),
            PickerOption("keep", "Don't cancel it"),
        ]
        choice = await self.context.ask(ActionPickerDialog(f"Todos that depend on {fit_line(todo_id, 40)}", options))
        return None if choice == "keep" else choice

    @on(messages.TodosEdited)
    def _submit_todos(self, event: messages.TodosEdited) -> None:
        edit = commands.PlanEdit(path=event.path, todos=event.todos, base=self._get_base(event.path))
        self.context.submit_soon(edit)

    @on(messages.RemovalRequested)
    @in_worker("commands", exclusive=False)
    async def _remove_todo(self, event: messages.RemovalRequested) -> None:
        waiting = find_dependants(self._todos, event.id)
        explanation = f"{fit_line(', '.join(waiting), 200)} would no longer depend on it." if waiting else ""
        question = f"Remove the todo {fit_line(event.id, 60)}?"
        if await self.context.ask(ConfirmDialog(question, "remove it", explanation=explanation, no="keep it")):
            todos = remove_todo(self._todos, event.id)
            await self.context.submit(commands.PlanEdit(path=event.path, todos=todos, base=self._get_base(event.path)))

    # Between plan and review

    @on(messages.HunksRequested)
    async def _show_hunks(self, event: messages.HunksRequested) -> None:
        changes = self.context.state.changes
        paths = [path for path, change in sorted(changes.items()) if _is_made_for(change, event.id)]
        if not paths:
            self.context.notify_user(f"No pending changes for {event.id}.")
            return
        await self._panes.show("review")
        if self._panes.review is not None:
            self._panes.review.browser.show_file(paths[0])

    @on(TodoRequested)
    async def _show_todo(self, event: TodoRequested) -> None:
        todo = event.todo or (event.change.origin.todo if event.change.origin else "")
        if not todo or all(candidate.id != todo for candidate in self._todos):
            self.context.notify_user("This change belongs to no todo.")
            return
        await self._panes.show("plan")
        if self._panes.plan is not None:
            self._panes.plan.select_todo(todo)

    # Text and comments

    @on(messages.ExternalEditRequested)
    def _edit_text_externally(self, event: messages.ExternalEditRequested) -> None:
        text = self._editor.edit(event.plan.body, ".md")
        if text is not None and text != event.plan.body:
            self.context.submit_soon(commands.PlanEdit(path=event.plan.path, body=text, base=event.plan))

    @on(messages.TextSaved)
    @in_worker("commands", exclusive=False)
    async def _save_text(self, event: messages.TextSaved) -> None:
        """Submit the text. The editor stays until the engine has taken it."""
        if await self.context.submit(commands.PlanEdit(path=event.plan.path, body=event.body, base=event.plan)):
            self._close_editor()

    def _close_editor(self) -> None:
        if self._panes.plan is not None:
            self._panes.plan.close_editor()

    @on(messages.DiscardRequested)
    def _discard_text(self) -> None:
        self.ask_to_discard("keep writing", self._close_editor)

    def ask_to_discard(self, no: str, on_confirm: Callable[[], None]) -> ConfirmDialog:
        """Ask before unsaved text of the plan is discarded; `no` labels the other answer. Return the dialog."""
        question = "Discard your edits to the plan?"
        dialog = ConfirmDialog(question, "discard", explanation="They are not saved.", no=no)
        self.context.confirm(dialog, on_confirm)
        return dialog

    @on(messages.NotEditable)
    def _report_line_endings(self) -> None:
        problem = "Can't edit here: its unusual line endings would change."
        self.context.notify_user(problem, "Press t to use $EDITOR.")


def _is_made_for(change: Change, todo: str) -> bool:
    return todo in {hunk.todo for hunk in change.hunks} | {change.origin.todo if change.origin else ""}


def _get_plan_name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(PLAN_SUFFIX)
