"""What the plan's panel asks the main screen for: commands to the engine, and the way to the review and back."""

from __future__ import annotations

from typing import Any, Final

from core.protocol import commands, queries
from core.protocol.documents import Todo
from tui.screens.rewinding import RewindingScreen
from tui.text import one_line
from tui.widgets.plan_edits import dependants, removed, with_status

FOLDER: Final = ".cursor/plans"
SUFFIX: Final = ".plan.md"
RELEASE: Final = "release"
CANCEL: Final = "cancel"


class PlanningScreen(RewindingScreen):
    """The panel's messages are matched by name, so that it is not imported before it is needed."""

    def action_choose_plan(self, path: str = "") -> None:
        """Make another plan of the project the one at hand."""
        self.run_worker(self._choose_plan(path), group="picker", exclusive=True)

    async def _choose_plan(self, path: str) -> None:
        from tui.screens.picker import Choice, Picker

        if not path:
            found = await self.bridge.query(queries.TreeQuery(path=FOLDER))
            entries = found.entries if isinstance(found, queries.Tree) else ()
            names = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
            if not names:
                self.say("There is no plan in this project yet.", "Ask for one in Plan mode.")
                return
            choices = [Choice(f"{FOLDER}/{name}", name.removesuffix(SUFFIX)) for name in names]
            chosen: str | None = await self.app.push_screen_wait(Picker("Plan", choices, current=self.state.plan))
            path = chosen or ""
        if path and await self.deliver(commands.PlanEdit(path=path)):
            await self.panes.show("plan")

    def on_plan_panel_set_status(self, event: Any) -> None:
        """Another status for a todo."""
        command = commands.TodoSet(id=event.id, status=event.status, plan=self.state.plan)
        self.run_worker(self._set_status(command), group="commands")

    async def _set_status(self, command: commands.TodoSet) -> None:
        waiting = dependants(self._todos, command.id) if command.status == "cancelled" else ()
        if not waiting:
            await self.deliver(command)
            return
        choice = await self._what_of(command.id, waiting)
        plan = self.state.current_plan
        if choice == CANCEL and plan is not None:
            keys = frozenset({command.id, *waiting})
            todos = with_status(self._todos, keys, "cancelled")
            await self.deliver(commands.PlanEdit(path=plan.path, todos=todos))
        elif choice in {RELEASE, CANCEL}:
            for key in (command.id, *(waiting if choice == CANCEL else ())):
                await self.deliver(commands.TodoSet(id=key, status="cancelled", plan=self.state.plan))

    async def _what_of(self, key: str, waiting: tuple[str, ...]) -> str | None:
        """What becomes of the todos that wait for one that is cancelled; None: it is kept."""
        from tui.screens.picker import Choice, Picker

        names = one_line(", ".join(waiting), 60)
        choices = [
            Choice(RELEASE, "Go on with them, without it", names),
            Choice(CANCEL, "Cancel them, too", names),
            Choice("keep", "Do not cancel it"),
        ]
        chosen = await self.app.push_screen_wait(Picker(f"What waits for {one_line(key, 40)}", choices))
        return None if chosen == "keep" else chosen

    @property
    def _todos(self) -> tuple[Todo, ...]:
        plan = self.state.current_plan
        return self.state.plan_todos or (plan.todos if plan else ())

    def on_plan_panel_build(self, event: Any) -> None:
        """Work the plan, or one todo of it."""
        self.send(commands.PlanBuild(path=event.path, todo=event.todo, fresh=event.fresh))

    def on_plan_panel_edited(self, event: Any) -> None:
        """The user changed the todos."""
        self.send(commands.PlanEdit(path=event.path, todos=event.todos))

    def on_plan_panel_removes(self, event: Any) -> None:
        """A todo is to go; asked about once more if others wait for it."""
        self.run_worker(self._remove_todo(event.path, event.id), group="commands")

    async def _remove_todo(self, path: str, key: str) -> None:
        from tui.screens.notes import Confirm

        waiting = dependants(self._todos, key)
        about = f"{one_line(', '.join(waiting), 200)} would no longer wait for it." if waiting else ""
        dialog = Confirm(f"Remove the todo {one_line(key, 60)}?", "remove it", about=about, no="keep it")
        if await self.app.push_screen_wait(dialog):
            await self.deliver(commands.PlanEdit(path=path, todos=removed(self._todos, key)))

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
        todo = event.change.origin.todo if event.change.origin else ""
        if not todo or all(each.id != todo for each in self._todos):
            self.say("This change was not made for a todo.")
            return
        await self.panes.show("plan")
        panel: Any = self.panes.side.pane("plan") if self.panes.side else None
        if panel is not None:
            panel.mark(todo)

    def on_plan_panel_edits_text(self, event: Any) -> None:
        """The text of the plan in the user's editor."""
        found = self._edited_outside(event.body, ".md")
        if found is not None and found != event.body:
            self.send(commands.PlanEdit(path=event.path, body=found))


def _made_for(change: Any, todo: str) -> bool:
    return change.origin is not None and change.origin.todo == todo
