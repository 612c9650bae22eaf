"""Files on the left, the side pane with its panes on the right: mounted when first shown, fed from the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from textual.widget import Widget

from core.errors import AgentTuiError
from core.protocol import queries
from core.protocol.moves import listed
from core.protocol.review import Change, ChangeDiff
from tui.crew_fold import at_work
from tui.state import Topic, ViewState
from tui.text import named
from tui.widgets.side import SidePane

if TYPE_CHECKING:
    from tui.screens.main import MainScreen
    from tui.widgets.review import ReviewPane

SEEN_FILES: Final = 8
FOUND: Final = 50


class Panes:
    """What stands beside the conversation of one main screen."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._bridge = screen.bridge
        self._popped = False
        self.put_away = ""  # the side pane that gave way to what has the focus when the window got narrow
        self.open_files: tuple[str, ...] = ()

    # Where the panes get their content.

    async def _load_tree(self, path: str) -> queries.Tree:
        answer = await self._bridge.query(queries.TreeQuery(path=path))
        return answer if isinstance(answer, queries.Tree) else queries.Tree(path=path, entries=())

    async def _find(self, words: str) -> tuple[str, ...]:
        answer = await self._bridge.query(queries.FindQuery(pattern=words, limit=FOUND))
        return answer.paths if isinstance(answer, queries.Found) else ()

    async def _load_file(self, path: str) -> queries.FileText:
        # what is to be deleted is there on the user's side only
        side: Literal["pending", "workspace"] = "workspace" if self._is_gone(path) else "pending"
        answer = await self._bridge.query(queries.FileQuery(path=path, side=side))
        if isinstance(answer, queries.FileText):
            return answer
        problem = answer.message if isinstance(answer, queries.Refused) else "It can't be read."
        return queries.FileText(path=path, text="", problem=problem)

    async def _load_diff(self, path: str) -> ChangeDiff | None:
        answer = await self._bridge.query(queries.DiffQuery(path=path))
        if isinstance(answer, queries.Refused):
            raise AgentTuiError(answer.message, hint=answer.hint)
        return answer.diff if isinstance(answer, queries.Diff) else None

    # Files.

    async def show_files(self) -> None:
        """Mount the files on the left and show them."""
        screen = self._screen
        if not screen.query("#left"):
            from tui.widgets.file_pane import FilePane

            await screen.query_one("#body").mount(FilePane(self._load_tree, self._find, id="left"), before="#centre")
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
        """Below 100 columns one pane at a time is shown; a review that has taken the whole window gives room."""
        self._screen.remove_class("-whole")
        if self.is_narrow:
            self.hide()

    @property
    def is_narrow(self) -> bool:
        """Whether a pane covers the conversation and the prompt."""
        return not self._screen.has_class("-wide") and not self._screen.has_class("-broad")

    async def leave(self) -> None:
        """Back to the prompt. What covers it is put away: a side pane, or the files, which may have been below one."""
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
    def shown(self) -> Widget | None:
        """The pane that is shown on the right."""
        return self.side.pane(self.side.current) if self.side is not None else None

    @property
    def side(self) -> SidePane | None:
        """The right pane, if it has been shown."""
        found = self._screen.query(SidePane)
        return found.first() if found else None

    async def _mounted_side(self) -> SidePane:
        if (side := self.side) is not None:
            return side
        makers = {"review": self._make_review, "plan": self._make_plan, "debug": self._make_board}
        makers |= {"preview": self._make_preview}
        side = SidePane(makers, id="side")
        await self._screen.query_one("#body").mount(side)
        return side

    def _make_review(self) -> Widget:
        from tui.widgets.review import ReviewPane

        return ReviewPane(self._load_diff)

    def _make_plan(self) -> Widget:
        from tui.widgets.plan_panel import PlanPanel

        return PlanPanel()

    def _make_board(self) -> Widget:
        from tui.widgets.board import DebugBoard

        return DebugBoard(self._load_log)

    async def _load_log(self, query: queries.ProbeLogQuery) -> queries.ProbeLog | None:
        answer = await self._bridge.query(query)
        return answer if isinstance(answer, queries.ProbeLog) else None

    def _make_preview(self) -> Widget:
        from tui.widgets.preview import Preview

        return Preview(self._load_file, is_gone=self._is_gone)

    def _is_gone(self, path: str) -> bool:
        """Whether what is pending of a file is its end."""
        change = self._screen.state.changes.get(path)
        return change is not None and change.operation == "delete"

    async def show(self, name: str, *, focus: bool = True) -> None:
        """Bring up a side pane; with the focus unless it came by itself."""
        side = await self._mounted_side()
        pane: Any = await side.show(name)
        self.put_away = ""
        self._screen.add_class("-side")
        if name != "review":
            self._screen.remove_class("-whole")
        self._feed_side(frozenset({"review", "plan", "debug"}))
        if name == "review":
            pane.arm()
        if focus:
            pane.focus()

    async def bring(self, name: str) -> None:
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
        self.put_away = ""

    def uncover(self) -> None:
        """Conversation, prompt and what waits there for an answer come to the front, if a pane covers them."""
        self._screen.remove_class("-whole")
        if self.is_narrow:
            current = self.side.current if self.side else ""
            self.hide()
            self.put_away = current
            self._screen.remove_class("-files")
        self._screen.app.stylesheet.update(self._screen)  # at once: the next key may be on its way to the prompt

    async def show_again(self) -> None:
        """What was put away because the window got narrow, once there is room; without the focus."""
        if self.put_away and not self.is_narrow:
            await self.show(self.put_away, focus=False)

    def _has_focus(self, widget: Widget) -> bool:
        focused = self._screen.focused
        return focused is not None and widget in focused.ancestors_with_self

    def verdict_failed(self, path: str, why: str = "") -> None:
        """The engine did not take a verdict on this file ("" = on any): its hunks can be judged again."""
        review: Any = self.side.pane("review") if self.side else None
        if review is not None:
            review.restore(path, why)
            review.show_path(path)

    async def preview(self, path: str, line: int = 0) -> None:
        """Show a file, at a line."""
        self.open_files = (path, *(each for each in self.open_files if each != path))[:SEEN_FILES]
        await self.show("preview", focus=self.is_narrow)
        pane: Any = self.side.pane("preview") if self.side else None
        if pane is not None:
            shown = pane.show(path, line)
            if hasattr(shown, "__await__"):
                await shown
        if self.side is not None:
            self.side.count("preview", named(path, 40))

    # Feeding.

    async def update(self, topics: frozenset[Topic]) -> None:
        """Pass on what has changed; pop the review or the plan up when there first is one and there is room."""
        state = self._screen.state
        if "files" in topics or "review" in topics:
            paths, state.touched_paths = frozenset(state.touched_paths), set()
            self._feed_tree(paths)
        self._feed_side(topics)
        waits = bool(state.changes or any(each.waits for each in state.bulks))
        if not waits:
            self._popped = False
        roomy = self._screen.has_class("-wide") or self._screen.has_class("-broad")
        debugs = state.mode == "debug" and state.running and bool(state.debug.hypotheses)  # the board is looked at
        if roomy and not self._popped and not topics.isdisjoint({"review", "debug"}) and waits and not debugs:
            self._popped = True
            await self.show("review", focus=False)
        elif roomy and "plan" in topics and state.mode == "plan" and state.current_plan is not None:
            await self.show("plan", focus=False)
        elif roomy and "debug" in topics and state.debug.hypotheses and self._board_waits():
            await self.show("debug", focus=False)

    def _board_waits(self) -> bool:
        """Whether the debug board was not shown yet."""
        return self.side is None or self.side.pane("debug") is None

    def _feed_side(self, topics: frozenset[Topic]) -> None:
        side, state = self.side, self._screen.state
        if side is None:
            return
        if "review" in topics:
            count = len(listed(state.changes)) + sum(each.waits for each in state.bulks)
            side.count("review", str(count) if count else "")
            if (review := side.pane("review")) is not None:
                pane = cast("ReviewPane", review)
                pane.set_around(
                    state.bulks, state.comments, state.turns, {each.id: each.content for each in state.todos}
                )
                pane.set_changes(listed(state.changes))
                refused, state.refused = state.refused, {}
                pane.set_refused(refused)
        if "debug" in topics and (board := side.pane("debug")) is not None:
            judged = sum(each.state != "open" for each in state.debug.hypotheses.values())
            side.count("debug", f"{judged}/{len(state.debug.hypotheses)}" if state.debug.hypotheses else "")
            cast("Any", board).set_debug(state.debug)
        if not topics.isdisjoint({"plan", "review"}):
            open_todos = sum(todo.status in {"pending", "in_progress"} for todo in state.todos)
            side.count("plan", str(open_todos) if open_todos else "")
            if (plan := side.pane("plan")) is not None:
                said = tuple(each for each in state.comments.values() if each.on_plan and each.path == state.plan)
                hunks = _hunks_by_todo(state.changes.values())
                cast("Any", plan).set_plan(
                    state.current_plan,
                    state.plan_todos,
                    {key: proof for key, proof in state.proofs.items() if proof.plan in {"", state.plan}},
                    comments=said,
                    hunks=hunks,
                    doing=_doing_by_todo(state),
                )


def _doing_by_todo(state: ViewState) -> dict[str, str]:
    """What the subagents do that are at work now, by their todo."""
    return {todo: block.acts[-1].text if block.acts else "begins" for todo, block in at_work(state).items()}


def _hunks_by_todo(changes: Iterable[Change]) -> dict[str, int]:
    """How many hunks wait that were made for a todo, by its id."""
    found: dict[str, int] = {}
    for change in changes:
        origin = change.origin.todo if change.origin else ""
        for todo in [hunk.todo or origin for hunk in change.hunks] or [origin]:
            if todo:
                found[todo] = found.get(todo, 0) + 1
    return found
