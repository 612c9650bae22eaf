"""The files on the left and the side pane on the right: mounted when first shown, fed from the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from textual.widget import Widget

from core.errors import AgentTuiError
from core.protocol import queries
from core.protocol.renames import list_changes
from core.protocol.review import Change, ChangeDiff
from tui.crew_fold import find_running_subagents
from tui.state import Topic, ViewState
from tui.text import format_path
from tui.widgets.side_pane import SidePane

if TYPE_CHECKING:
    from tui.review.pane import ReviewPane
    from tui.screens.main import MainScreen

MAX_OPEN_FILES: Final = 8
MAX_FOUND_FILES: Final = 50


class PaneController:
    """The panes beside the conversation of one main screen."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._bridge = screen.bridge
        self._is_review_shown = False
        self.hidden_pane = ""  # the side pane that gave way to what has the focus when the window got narrow
        self.open_files: tuple[str, ...] = ()

    # Where the panes get their content.

    async def _load_tree(self, path: str) -> queries.TreeAnswer:
        answer = await self._bridge.query(queries.TreeQuery(path=path))
        return answer if isinstance(answer, queries.TreeAnswer) else queries.TreeAnswer(path=path, entries=())

    async def _find_files(self, words: str) -> tuple[str, ...]:
        answer = await self._bridge.query(queries.FindQuery(pattern=words, limit=MAX_FOUND_FILES))
        return answer.paths if isinstance(answer, queries.FindAnswer) else ()

    async def _load_file(self, path: str) -> queries.FileAnswer:
        # what is to be deleted is there on the user's side only
        side: Literal["pending", "workspace"] = "workspace" if self._is_deleted(path) else "pending"
        answer = await self._bridge.query(queries.FileQuery(path=path, side=side))
        if isinstance(answer, queries.FileAnswer):
            return answer
        problem = answer.message if isinstance(answer, queries.RefusedAnswer) else "It can't be read."
        return queries.FileAnswer(path=path, text="", problem=problem)

    async def _load_diff(self, path: str) -> ChangeDiff | None:
        answer = await self._bridge.query(queries.DiffQuery(path=path))
        if isinstance(answer, queries.RefusedAnswer):
            raise AgentTuiError(answer.message, hint=answer.hint)
        return answer.diff if isinstance(answer, queries.DiffAnswer) else None

    # Files.

    async def show_files(self) -> None:
        """Mount the files on the left and show them."""
        screen = self._screen
        if not screen.query("#left"):
            from tui.files.pane import FilePane

            await screen.query_one("#body").mount(
                FilePane(self._load_tree, self._find_files, id="left"), before="#centre"
            )
            self._feed_tree(frozenset())
        screen.add_class("-files")

    async def toggle_files(self) -> None:
        """Show and focus the files, or hide them."""
        left = self._screen.query("#left")
        if left and left.first().display:
            self._screen.remove_class("-files")
            self._screen.focus_prompt()
            return
        await self.hide_side_if_narrow()
        await self.show_files()
        self._screen.query_one("#left").focus()

    async def hide_side_if_narrow(self) -> None:
        """Hide the side pane below 100 columns, where one pane at a time is shown; end the review's full width."""
        self._screen.remove_class("-whole")
        if self.is_narrow:
            self.hide()

    @property
    def is_narrow(self) -> bool:
        """True if a pane covers the conversation and the prompt."""
        return not self._screen.has_class("-wide") and not self._screen.has_class("-broad")

    async def leave_pane(self) -> None:
        """Go back to the prompt. A side pane that covers it is hidden, or the files, which may have been below one."""
        side = self.side
        if self.is_narrow and (side is None or not side.current):
            self._screen.remove_class("-files")
        await self.hide_side_if_narrow()
        self._focus_below()

    def _focus_below(self) -> None:
        if self.is_narrow and self._screen.has_class("-files"):
            self._screen.query_one("#left").focus()
        else:
            self._screen.focus_prompt()

    def _feed_tree(self, paths: frozenset[str]) -> None:
        state = self._screen.state
        for tree in self._screen.query("FileTree"):
            fed: Any = tree
            fed.set_marks({path: change.operation for path, change in state.changes.items()})
            if paths:
                fed.refresh_paths(paths)

    # The side.

    @property
    def current_pane(self) -> Widget | None:
        """The pane that is shown on the right; None = none."""
        return self.side.get_pane(self.side.current) if self.side is not None else None

    @property
    def side(self) -> SidePane | None:
        """The side pane on the right, if it has been shown."""
        found = self._screen.query(SidePane)
        return found.first() if found else None

    async def _get_or_mount_side(self) -> SidePane:
        if (side := self.side) is not None:
            return side
        makers = {"review": self._make_review, "plan": self._make_plan, "debug": self._make_board}
        makers |= {"preview": self._make_preview}
        side = SidePane(makers, id="side")
        await self._screen.query_one("#body").mount(side)
        return side

    def _make_review(self) -> Widget:
        from tui.review.pane import ReviewPane

        return ReviewPane(self._load_diff)

    def _make_plan(self) -> Widget:
        from tui.plan.panel import PlanPanel

        return PlanPanel()

    def _make_board(self) -> Widget:
        from tui.debug.board import DebugBoard

        return DebugBoard(self._load_log)

    async def _load_log(self, query: queries.ProbeLogQuery) -> queries.ProbeLogAnswer | None:
        answer = await self._bridge.query(query)
        return answer if isinstance(answer, queries.ProbeLogAnswer) else None

    def _make_preview(self) -> Widget:
        from tui.files.preview import FilePreview

        return FilePreview(self._load_file, is_gone=self._is_deleted)

    def _is_deleted(self, path: str) -> bool:
        """True if the pending change of a file deletes it."""
        change = self._screen.state.changes.get(path)
        return change is not None and change.operation == "delete"

    async def show(self, name: str, *, focus: bool = True) -> None:
        """Show a side pane; with the focus unless it came by itself."""
        side = await self._get_or_mount_side()
        pane: Any = await side.show(name)
        self.hidden_pane = ""
        self._screen.add_class("-side")
        if name != "review":
            self._screen.remove_class("-whole")
        self._feed_side(frozenset({"review", "plan", "debug"}))
        if name == "review":
            pane.start_grace()
        if focus:
            pane.focus()

    async def ensure_shown(self, name: str) -> None:
        """Show "files" or a side pane, unless it is there already."""
        if name == "files":
            await self.hide_side_if_narrow()
            await self.show_files()
        elif self.side is None or self.side.current != name:
            await self.show(name, focus=False)

    async def toggle(self, name: str) -> None:
        """Show a pane and go there; hide it when it has the focus."""
        side = self.side
        if side is not None and side.current == name and self._has_focus(side):
            self.hide()
            self._focus_below()
        else:
            await self.show(name)

    def hide(self) -> None:
        """Hide the side pane."""
        if (side := self.side) is not None:
            side.hide()
        self._screen.remove_class("-side", "-whole")
        self.hidden_pane = ""

    def uncover_prompt(self) -> None:
        """Bring conversation, prompt and questions to the front, if a pane covers them."""
        self._screen.remove_class("-whole")
        if self.is_narrow:
            current = self.side.current if self.side else ""
            self.hide()
            self.hidden_pane = current
            self._screen.remove_class("-files")
        self._screen.app.stylesheet.update(self._screen)  # at once: the next key may be on its way to the prompt

    async def restore_hidden_pane(self) -> None:
        """Show the pane again that was hidden because the window got narrow, once there is room; without the focus."""
        if self.hidden_pane and not self.is_narrow:
            await self.show(self.hidden_pane, focus=False)

    def _has_focus(self, widget: Widget) -> bool:
        focused = self._screen.focused
        return focused is not None and widget in focused.ancestors_with_self

    def restore_verdict(self, path: str, why: str = "") -> None:
        """Let hunks of a file ("" = of any) be judged again, since the engine did not take a verdict."""
        review: Any = self.side.get_pane("review") if self.side else None
        if review is not None:
            review.reopen(path, why)
            review.show_file(path)

    async def preview_file(self, path: str, line: int = 0) -> None:
        """Preview a file, at a line."""
        self.open_files = (path, *(each for each in self.open_files if each != path))[:MAX_OPEN_FILES]
        await self.show("preview", focus=self.is_narrow)
        pane: Any = self.side.get_pane("preview") if self.side else None
        if pane is not None:
            shown = pane.show(path, line)
            if hasattr(shown, "__await__"):
                await shown
        if self.side is not None:
            self.side.set_count("preview", format_path(path, 40))

    # Feeding.

    async def update(self, topics: frozenset[Topic]) -> None:
        """Pass on what has changed; show the review or the plan when there first is one and there is room."""
        state = self._screen.state
        if "files" in topics or "review" in topics:
            paths, state.touched_paths = frozenset(state.touched_paths), set()
            self._feed_tree(paths)
        self._feed_side(topics)
        waits = bool(state.changes or any(each.needs_verdict for each in state.bulks))
        if not waits:
            self._is_review_shown = False
        roomy = self._screen.has_class("-wide") or self._screen.has_class("-broad")
        debugs = state.mode == "debug" and state.is_running and bool(state.debug.hypotheses)  # the board is looked at
        if roomy and not self._is_review_shown and not topics.isdisjoint({"review", "debug"}) and waits and not debugs:
            self._is_review_shown = True
            await self.show("review", focus=False)
        elif roomy and "plan" in topics and state.mode == "plan" and state.current_plan is not None:
            await self.show("plan", focus=False)
        elif roomy and "debug" in topics and state.debug.hypotheses and self._is_board_unmounted():
            await self.show("debug", focus=False)

    def _is_board_unmounted(self) -> bool:
        """True if the debug board was not shown yet."""
        return self.side is None or self.side.get_pane("debug") is None

    def _feed_side(self, topics: frozenset[Topic]) -> None:
        side, state = self.side, self._screen.state
        if side is None:
            return
        if "review" in topics:
            count = len(list_changes(state.changes)) + sum(each.needs_verdict for each in state.bulks)
            side.set_count("review", str(count) if count else "")
            if (review := side.get_pane("review")) is not None:
                pane = cast("ReviewPane", review)
                pane.set_surroundings(
                    state.bulks, state.comments, state.turn_numbers, {each.id: each.content for each in state.todos}
                )
                pane.set_changes(list_changes(state.changes))
                refused, state.refusals = state.refusals, {}
                pane.show_refused(refused)
        if "debug" in topics and (board := side.get_pane("debug")) is not None:
            judged = sum(each.state != "open" for each in state.debug.hypotheses.values())
            side.set_count("debug", f"{judged}/{len(state.debug.hypotheses)}" if state.debug.hypotheses else "")
            cast("Any", board).show(state.debug)
        if not topics.isdisjoint({"plan", "review"}):
            open_todos = sum(todo.status in {"pending", "in_progress"} for todo in state.todos)
            side.set_count("plan", str(open_todos) if open_todos else "")
            if (plan := side.get_pane("plan")) is not None:
                said = tuple(
                    each for each in state.comments.values() if each.on_plan and each.path == state.current_plan_path
                )
                hunks = _count_hunks_by_todo(state.changes.values())
                cast("Any", plan).show(
                    state.current_plan,
                    state.plan_todos,
                    {
                        key: proof
                        for key, proof in state.verifications.items()
                        if proof.plan in {"", state.current_plan_path}
                    },
                    comments=said,
                    hunks=hunks,
                    doing=_map_todo_activity(state),
                )


def _map_todo_activity(state: ViewState) -> dict[str, str]:
    """Map todos to the latest activity of the subagents that work on them."""
    return {
        todo: block.acts[-1].text if block.acts else "begins" for todo, block in find_running_subagents(state).items()
    }


def _count_hunks_by_todo(changes: Iterable[Change]) -> dict[str, int]:
    """Count the pending hunks that were made for each todo, by its id."""
    found: dict[str, int] = {}
    for change in changes:
        origin = change.origin.todo if change.origin else ""
        for todo in [hunk.todo or origin for hunk in change.hunks] or [origin]:
            if todo:
                found[todo] = found.get(todo, 0) + 1
    return found
