"""What the plan's panel asks the main screen for: commands to the engine, and the way to the review and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from core.protocol import commands, queries
from core.protocol.commands import MOST_AT_ONCE
from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan
from tui.screens.rewinding import RewindingScreen
from tui.text import one_line
from tui.widgets.plan_edits import dependants, removed, with_status
from tui.work import begin

if TYPE_CHECKING:
    from tui.widgets.plan_panel import PlanPanel

FOLDER: Final = ".cursor/plans"
SUFFIX: Final = ".plan.md"
RELEASE: Final = "release"
CANCEL: Final = "cancel"
STARTED: Final = frozenset({"in_progress", "completed"})


class PlanningScreen(RewindingScreen):
    """The panel's messages are matched by name, so that it is not imported before it is needed."""

    def action_choose_plan(self, path: str = "") -> None:
        """Make another plan of the project the one at hand."""
        begin(self, self._choose_plan, path, group="picker", exclusive=True)

    async def _choose_plan(self, name: str) -> None:
        path = name if "/" in name else await self._plan_called(name)
        if path and await self.deliver(commands.PlanEdit(path=path)):
            await self.panes.show("plan")

    async def _plan_called(self, name: str) -> str:
        """The path of the project's plan whose file's name begins so; of several the user chooses. "" = none."""
        from tui.screens.picker import Choice, Picker

        found = await self.bridge.query(queries.TreeQuery(path=FOLDER))
        entries = found.entries if isinstance(found, queries.Tree) else ()
        every = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
        names = [each for each in every if each.startswith(name)]
        if not names:
            told = f"No plan here begins with {one_line(name, 60)}." if every else "There is no plan here yet."
            self.say(told, "/plans shows all." if every else "Ask for one in Plan mode.")
            return ""
        if len(names) == 1:
            return f"{FOLDER}/{names[0]}"
        choices = [Choice(f"{FOLDER}/{each}", each.removesuffix(SUFFIX)) for each in names]
        chosen: str | None = await self.app.push_screen_wait(Picker("Plan", choices, current=self.state.plan))
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
        path = self.state.plan if fresh or todo else what or self.state.plan
        self._build(commands.PlanBuild(path=path, todo=todo, fresh=fresh))

    def _build_in_parallel(self, count: str) -> None:
        workers = MOST_AT_ONCE if not count else int(count) if count.isdecimal() and len(count) < 4 else 0
        if 1 <= workers <= MOST_AT_ONCE:
            self._build(commands.PlanBuild(path=self.state.plan, workers=workers))
        else:
            self.say(f"{one_line(count, 40)} is not how many can work at once.", f"From 1 to {MOST_AT_ONCE} can.")

    def _build(self, command: commands.PlanBuild) -> None:
        """Where no plan is at hand, one of the project's is looked for first. All that is built is to be seen."""

        async def found() -> None:
            if path := await self._plan_called(""):
                self.send(replace(command, path=path))

        if self._plan_panel is not None:
            self._plan_panel.action_unfilter()
        if command.path:
            self.send(command)
        else:
            begin(self, found, group="picker", exclusive=True)

    def on_plan_panel_set_status(self, event: Any) -> None:
        """Another status for a todo."""
        command = commands.TodoSet(id=event.id, status=event.status, plan=self.state.plan)
        begin(self, self._set_status, command, group="commands")

    async def _set_status(self, command: commands.TodoSet) -> None:
        if command.status in STARTED and (first := self._first(command.id)):
            chosen = await self._early(command.id, first)
            if chosen is None:
                return
            command = replace(command, status=chosen, anyway=True)
        waiting = dependants(self._todos, command.id) if command.status == "cancelled" else ()
        if not waiting:
            await self.deliver(command)
            return
        choice = await self._what_of(command.id, waiting)
        plan = self.state.current_plan
        if choice == CANCEL and plan is not None:
            keys = frozenset({command.id, *waiting})
            todos = with_status(self._todos, keys, "cancelled")
            await self.deliver(commands.PlanEdit(path=plan.path, todos=todos, base=self._base(plan.path)))
        elif choice in {RELEASE, CANCEL}:
            for key in (command.id, *(waiting if choice == CANCEL else ())):
                await self.deliver(commands.TodoSet(id=key, status="cancelled", plan=self.state.plan))

    def _first(self, key: str) -> list[str]:
        """What a todo still waits for."""
        from tui.widgets.plan_rows import waits_for

        by_id = {todo.id: todo for todo in self._todos}
        return waits_for(by_id[key], by_id) if key in by_id else []

    async def _early(self, key: str, first: Sequence[str]) -> TodoStatus | None:
        """What is to become of a todo that waits and was not to be begun by accident; None: nothing."""
        from tui.screens.picker import Choice, DeedPicker

        choices = [
            Choice("keep", "Leave it as it is", one_line(f"it waits for {', '.join(first)}", 60)),
            Choice("completed", "It is completed all the same"),
            Choice(CANCEL, "Cancel it"),
        ]
        chosen = await self.app.push_screen_wait(DeedPicker(f"{one_line(key, 40)} waits for others", choices))
        return "completed" if chosen == "completed" else "cancelled" if chosen == CANCEL else None

    async def _what_of(self, key: str, waiting: tuple[str, ...]) -> str | None:
        """What becomes of the todos that wait for one that is cancelled; None: it is kept."""
        from tui.screens.picker import Choice, DeedPicker

        names = one_line(", ".join(waiting), 60)
        choices = [
            Choice(RELEASE, "Go on with them, without it", names),
            Choice(CANCEL, "Cancel them, too", names),
            Choice("keep", "Do not cancel it"),
        ]
        chosen = await self.app.push_screen_wait(DeedPicker(f"What waits for {one_line(key, 40)}", choices))
        return None if chosen == "keep" else chosen

    @property
    def _todos(self) -> tuple[Todo, ...]:
        plan = self.state.current_plan
        return self.state.plan_todos or (plan.todos if plan else ())

    def on_plan_panel_build(self, event: Any) -> None:
        """Work the plan, or one todo of it."""
        build = commands.PlanBuild(path=event.path, todo=event.todo, fresh=event.fresh, workers=event.workers)
        self._build(build)

    def on_plan_panel_edited(self, event: Any) -> None:
        """The user changed the todos."""
        self.send(commands.PlanEdit(path=event.path, todos=event.todos, base=self._base(event.path)))

    def _base(self, path: str) -> Plan | None:
        """The plan that a change was made of, so that what changed since is merged and not taken back."""
        plan = self.state.plans.get(path)
        return replace(plan, todos=self._todos) if plan is not None and path == self.state.plan else plan

    def on_plan_panel_removes(self, event: Any) -> None:
        """A todo is to go; asked about once more if others wait for it."""
        begin(self, self._remove_todo, event.path, event.id, group="commands")

    async def _remove_todo(self, path: str, key: str) -> None:
        from tui.screens.notes import Confirm

        waiting = dependants(self._todos, key)
        about = f"{one_line(', '.join(waiting), 200)} would no longer wait for it." if waiting else ""
        dialog = Confirm(f"Remove the todo {one_line(key, 60)}?", "remove it", about=about, no="keep it")
        if await self.app.push_screen_wait(dialog):
            edit = commands.PlanEdit(path=path, todos=removed(self._todos, key), base=self._base(path))
            await self.deliver(edit)

    async def on_plan_panel_shows_hunks(self, event: Any) -> None:
        """The first change that was made for a todo."""
        found = [path for path, change in sorted(self.state.changes.items()) if _made_for(change, event.id)]
        if not found:
            self.say(f"Nothing is pending that was changed for {event.id}.")
            return
        await self.panes.show("review")
        review: Any = self.panes.side.pane("review") if self.panes.side else None
        if review is not None:
            review.show_path(found[0])

    async def on_review_pane_shows_todo(self, event: Any) -> None:
        """The todo that a change was made for."""
        todo = event.todo or (event.change.origin.todo if event.change.origin else "")
        if not todo or all(each.id != todo for each in self._todos):
            self.say("This change was not made for a todo.")
            return
        await self.panes.show("plan")
        if self._plan_panel is not None:
            self._plan_panel.mark(todo)

    def on_plan_panel_edits_text(self, event: Any) -> None:
        """The text of the plan in the user's editor."""
        found = self._edited_outside(event.plan.body, ".md")
        if found is not None and found != event.plan.body:
            self.send(commands.PlanEdit(path=event.plan.path, body=found, base=event.plan))

    # The text, edited here

    def on_plan_panel_writes_text(self, event: Any) -> None:
        """The text of the plan is to be another. The editor stays until the engine has taken it."""
        command = commands.PlanEdit(path=event.plan.path, body=event.body, base=event.plan)
        begin(self, self._write_text, command, group="commands")

    async def _write_text(self, command: commands.PlanEdit) -> None:
        if await self.deliver(command) and self._plan_panel is not None:
            self._plan_panel.stop_writing()

    def on_plan_panel_discards(self) -> None:
        """What was typed is to be thrown away, if the user means it."""
        if self._plan_panel is not None:
            self._ask_to_discard("go on writing", self._plan_panel.stop_writing)

    def _ask_to_discard(self, no: str, then: Callable[[], None]) -> None:
        from tui.screens.notes import Confirm

        def decided(agreed: bool | None) -> None:
            if agreed:
                then()

        dialog = Confirm("Throw away what you typed in the plan?", "throw it away", about="It is not saved.", no=no)
        _ = self.app.push_screen(dialog, decided)

    def on_plan_panel_unfit(self) -> None:
        """The text has line endings that an editor of lines would change."""
        self.say("This text has unusual line endings inside that an editor here would change.", "t: in your $EDITOR.")

    def action_leave(self) -> None:
        """Leave; what was typed in the plan and is not saved is asked about first."""
        if self._plan_panel is not None and self._plan_panel.is_writing:
            self._ask_to_discard("stay", super().action_leave)
        else:
            super().action_leave()

    @property
    def _plan_panel(self) -> PlanPanel | None:
        found: Any = self.panes.side.pane("plan") if self.panes.side else None
        return found  # type: ignore[no-any-return]

    # Comments

    def on_plan_panel_comments(self, event: Any) -> None:
        """Something was said of lines of the plan."""
        self.send(
            commands.PlanComment(
                path=event.path, text=event.text, start=event.start, excerpt=event.excerpt, id=event.id
            )
        )

    def on_plan_panel_wants_comments(self) -> None:
        """Look at the comments and send them."""
        self.action_send_comments()


def _made_for(change: Any, todo: str) -> bool:
    made = {hunk.todo for hunk in change.hunks} | {change.origin.todo if change.origin else ""}
    return todo in made
