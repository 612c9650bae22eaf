"""What the plan's panel asks the main screen for: commands to the engine, and the way to the review and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from core.protocol import commands, queries
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan
from tui.plan.todo_edits import find_dependants, remove_todo, set_status
from tui.screens.controllers.rewind import RewindingScreen
from tui.text import fit_line
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.plan.panel import PlanPanel

PLAN_FOLDER: Final = ".cursor/plans"
PLAN_SUFFIX: Final = ".plan.md"
RELEASE: Final = "release"
CANCEL: Final = "cancel"
STARTED: Final = frozenset({"in_progress", "completed"})


class PlanningScreen(RewindingScreen):
    """The panel's messages are matched by name, so that it is not imported before it is needed."""

    def action_choose_plan(self, path: str = "") -> None:
        """Make another plan of the project the one at hand."""
        start_worker(self, self._choose_plan, path, group="picker", exclusive=True)

    async def _choose_plan(self, name: str) -> None:
        path = name if "/" in name else await self._find_plan(name)
        if path and await self.submit(commands.PlanEdit(path=path)):
            await self.panes.show("plan")

    async def _find_plan(self, name: str) -> str:
        """Return the path of the plan whose file name begins so; of several the user chooses. "" = none."""
        from tui.screens.dialogs.picker import PickerDialog, PickerOption

        found = await self.bridge.query(queries.TreeQuery(path=PLAN_FOLDER))
        entries = found.entries if isinstance(found, queries.TreeAnswer) else ()
        every = [entry.name for entry in entries if entry.name.endswith(PLAN_SUFFIX)]
        names = [each for each in every if each.startswith(name)]
        if not names:
            told = f"No plan here begins with {fit_line(name, 60)}." if every else "There is no plan here yet."
            self.notify_user(told, "/plans shows all." if every else "Ask for one in Plan mode.")
            return ""
        if len(names) == 1:
            return f"{PLAN_FOLDER}/{names[0]}"
        choices = [PickerOption(f"{PLAN_FOLDER}/{each}", each.removesuffix(PLAN_SUFFIX)) for each in names]
        chosen: str | None = await self.app.push_screen_wait(
            PickerDialog("Plan", choices, current=self.state.current_plan_path)
        )
        return chosen or ""

    def action_build_plan(self, what: str = "") -> None:
        """Work the plan at hand, or a plan by its path; one todo of it by its id; "fresh" without the conversation;
        "parallel" with up to so many subagents at once."""
        word, _, count = what.partition(" ")
        if word == "parallel":
            self._build_in_parallel(count.strip())
            return
        plan, fresh = self.state.current_plan, what == "fresh"
        todo = what if plan is not None and any(each.id == what for each in plan.todos) else ""
        path = self.state.current_plan_path if fresh or todo else what or self.state.current_plan_path
        self._submit_build(commands.PlanBuild(path=path, todo=todo, fresh=fresh))

    def _build_in_parallel(self, count: str) -> None:
        workers = MAX_SUBAGENTS if not count else int(count) if count.isdecimal() and len(count) < 4 else 0
        if 1 <= workers <= MAX_SUBAGENTS:
            self._submit_build(commands.PlanBuild(path=self.state.current_plan_path, workers=workers))
        else:
            self.notify_user(
                f"{fit_line(count, 40)} is not how many can work at once.", f"From 1 to {MAX_SUBAGENTS} can."
            )

    def _submit_build(self, command: commands.PlanBuild) -> None:
        """Submit a build. Where no plan is at hand, one of the project's is looked for first. All that is built is
        shown."""

        async def found() -> None:
            if path := await self._find_plan(""):
                self.submit_soon(replace(command, path=path))

        if self._plan_panel is not None:
            self._plan_panel.action_unfilter()
        if command.path:
            self.submit_soon(command)
        else:
            start_worker(self, found, group="picker", exclusive=True)

    def on_plan_panel_status_requested(self, event: Any) -> None:
        """Another status for a todo."""
        command = commands.TodoSet(id=event.id, status=event.status, plan=self.state.current_plan_path)
        start_worker(self, self._set_status, command, group="commands")

    async def _set_status(self, command: commands.TodoSet) -> None:
        if command.status in STARTED and (first := self._find_unmet_needs(command.id)):
            chosen = await self._ask_about_waiting_todo(command.id, first)
            if chosen is None:
                return
            command = replace(command, status=chosen, anyway=True)
        waiting = find_dependants(self._todos, command.id) if command.status == "cancelled" else ()
        if not waiting:
            await self.submit(command)
            return
        choice = await self._ask_about_dependants(command.id, waiting)
        plan = self.state.current_plan
        if choice == CANCEL and plan is not None:
            keys = frozenset({command.id, *waiting})
            todos = set_status(self._todos, keys, "cancelled")
            await self.submit(commands.PlanEdit(path=plan.path, todos=todos, base=self._get_base(plan.path)))
        elif choice in {RELEASE, CANCEL}:
            for key in (command.id, *(waiting if choice == CANCEL else ())):
                await self.submit(commands.TodoSet(id=key, status="cancelled", plan=self.state.current_plan_path))

    def _find_unmet_needs(self, key: str) -> list[str]:
        """Return the todos that a todo still waits for."""
        from tui.plan.todo_rows import list_open_dependencies

        by_id = {todo.id: todo for todo in self._todos}
        return list_open_dependencies(by_id[key], by_id) if key in by_id else []

    async def _ask_about_waiting_todo(self, key: str, first: Sequence[str]) -> TodoStatus | None:
        """Ask about a todo that still waits for others; None: leave it as it is."""
        from tui.screens.dialogs.picker import ActionPickerDialog, PickerOption

        choices = [
            PickerOption("keep", "Leave it as it is", fit_line(f"it waits for {', '.join(first)}", 60)),
            PickerOption("completed", "It is completed all the same"),
            PickerOption(CANCEL, "Cancel it"),
        ]
        chosen = await self.app.push_screen_wait(ActionPickerDialog(f"{fit_line(key, 40)} waits for others", choices))
        return "completed" if chosen == "completed" else "cancelled" if chosen == CANCEL else None

    async def _ask_about_dependants(self, key: str, waiting: tuple[str, ...]) -> str | None:
        """Ask about the todos that wait for one that is to be cancelled; None: do not cancel it."""
        from tui.screens.dialogs.picker import ActionPickerDialog, PickerOption

        names = fit_line(", ".join(waiting), 60)
        choices = [
            PickerOption(RELEASE, "Go on with them, without it", names),
            PickerOption(CANCEL, "Cancel them, too", names),
            PickerOption("keep", "Do not cancel it"),
        ]
        chosen = await self.app.push_screen_wait(ActionPickerDialog(f"What waits for {fit_line(key, 40)}", choices))
        return None if chosen == "keep" else chosen

    @property
    def _todos(self) -> tuple[Todo, ...]:
        plan = self.state.current_plan
        return self.state.plan_todos or (plan.todos if plan else ())

    def on_plan_panel_build_requested(self, event: Any) -> None:
        """Work the plan, or one todo of it."""
        build = commands.PlanBuild(path=event.path, todo=event.todo, fresh=event.fresh, workers=event.workers)
        self._submit_build(build)

    def on_plan_panel_todos_edited(self, event: Any) -> None:
        """The user changed the todos."""
        self.submit_soon(commands.PlanEdit(path=event.path, todos=event.todos, base=self._get_base(event.path)))

    def _get_base(self, path: str) -> Plan | None:
        """Return the plan that a change was made of, so that later changes are merged and not taken back."""
        plan = self.state.plans.get(path)
        return replace(plan, todos=self._todos) if plan is not None and path == self.state.current_plan_path else plan

    def on_plan_panel_removal_requested(self, event: Any) -> None:
        """A todo is to go; asked about once more if others wait for it."""
        start_worker(self, self._remove_todo, event.path, event.id, group="commands")

    async def _remove_todo(self, path: str, key: str) -> None:
        from tui.screens.dialogs.pages import ConfirmDialog

        waiting = find_dependants(self._todos, key)
        about = f"{fit_line(', '.join(waiting), 200)} would no longer wait for it." if waiting else ""
        dialog = ConfirmDialog(f"Remove the todo {fit_line(key, 60)}?", "remove it", about=about, no="keep it")
        if await self.app.push_screen_wait(dialog):
            edit = commands.PlanEdit(path=path, todos=remove_todo(self._todos, key), base=self._get_base(path))
            await self.submit(edit)

    async def on_plan_panel_hunks_requested(self, event: Any) -> None:
        """The first change that was made for a todo."""
        found = [path for path, change in sorted(self.state.changes.items()) if _is_made_for(change, event.id)]
        if not found:
            self.notify_user(f"Nothing is pending that was changed for {event.id}.")
            return
        await self.panes.show("review")
        review: Any = self.panes.side.get_pane("review") if self.panes.side else None
        if review is not None:
            review.show_file(found[0])

    async def on_review_pane_todo_requested(self, event: Any) -> None:
        """The todo that a change was made for."""
        todo = event.todo or (event.change.origin.todo if event.change.origin else "")
        if not todo or all(each.id != todo for each in self._todos):
            self.notify_user("This change was not made for a todo.")
            return
        await self.panes.show("plan")
        if self._plan_panel is not None:
            self._plan_panel.select_todo(todo)

    def on_plan_panel_external_edit_requested(self, event: Any) -> None:
        """The text of the plan in the user's editor."""
        found = self._edit_externally(event.plan.body, ".md")
        if found is not None and found != event.plan.body:
            self.submit_soon(commands.PlanEdit(path=event.plan.path, body=found, base=event.plan))

    # The text, edited here

    def on_plan_panel_text_saved(self, event: Any) -> None:
        """The text of the plan is to be another. The editor stays until the engine has taken it."""
        command = commands.PlanEdit(path=event.plan.path, body=event.body, base=event.plan)
        start_worker(self, self._write_text, command, group="commands")

    async def _write_text(self, command: commands.PlanEdit) -> None:
        if await self.submit(command) and self._plan_panel is not None:
            self._plan_panel.close_editor()

    def on_plan_panel_discard_requested(self) -> None:
        """What was typed is to be thrown away, if the user means it."""
        if self._plan_panel is not None:
            self._ask_to_discard("go on writing", self._plan_panel.close_editor)

    def _ask_to_discard(self, no: str, then: Callable[[], None]) -> None:
        from tui.screens.dialogs.pages import ConfirmDialog

        def decided(agreed: bool | None) -> None:
            if agreed:
                then()

        dialog = ConfirmDialog(
            "Throw away what you typed in the plan?", "throw it away", about="It is not saved.", no=no
        )
        _ = self.app.push_screen(dialog, decided)

    def on_plan_panel_not_editable(self) -> None:
        """The text has line endings that an editor of lines would change."""
        self.notify_user(
            "This text has unusual line endings inside that an editor here would change.", "t: in your $EDITOR."
        )

    def action_leave(self) -> None:
        """Leave; what was typed in the plan and is not saved is asked about first."""
        if self._plan_panel is not None and self._plan_panel.is_writing:
            self._ask_to_discard("stay", super().action_leave)
        else:
            super().action_leave()

    @property
    def _plan_panel(self) -> PlanPanel | None:
        found: Any = self.panes.side.get_pane("plan") if self.panes.side else None
        return found  # type: ignore[no-any-return]

    # Comments

    def on_plan_panel_comment_edited(self, event: Any) -> None:
        """Something was said of lines of the plan."""
        self.submit_soon(
            commands.PlanComment(
                path=event.path, text=event.text, start=event.start, excerpt=event.excerpt, id=event.id
            )
        )

    def on_plan_panel_comments_requested(self) -> None:
        """Look at the comments and send them."""
        self.action_send_comments()


def _is_made_for(change: Any, todo: str) -> bool:
    made = {hunk.todo for hunk in change.hunks} | {change.origin.todo if change.origin else ""}
    return todo in made
