"""The controllers of the side panes and of the focus: the displayed pane, its width, and the target of keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from textual import events, on
from textual.actions import SkipAction
from textual.widget import Widget

from core.errors import AgentTuiError
from core.protocol import queries
from core.protocol.commands import Viewing
from core.protocol.review import ChangeDiff
from tui.chat.prompt import Prompt
from tui.files.messages import FileSelected
from tui.input.visibility import get_visibility, is_button_down
from tui.key_table import ACTION_SCOPES
from tui.modes import REVIEW, SCREEN_MODES, AutoPane
from tui.panes import PANES
from tui.screens.controller import Controller, ScreenContext
from tui.state import Topic
from tui.text import format_path
from tui.widgets.diagnostics import summarize_diagnostics
from tui.widgets.side_pane import SidePane, wait_until_mounted

if TYPE_CHECKING:
    from tui.files.preview import FilePreview
    from tui.plan.panel import PlanPanel
    from tui.review.pane import ReviewPane

MAX_OPEN_FILES: Final = 8
MAX_VISITED: Final = 100
MAX_FOUND_FILES: Final = 50
WHOLE_WIDTH: Final = 160  # columns below which half a window is too narrow for a review
# Where the keys of a scope work: the palette carries their actions out there.


class PaneController(Controller):
    """Shows and updates the panes next to the conversation."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._auto_shown: set[str] = set()
        self._mounting = asyncio.Lock()  # a pane may open automatically while a key requests another
        self.awaits_focus = False  # a pane that is being shown is about to get the focus
        self.refuge: Widget | None = None  # has the focus while the widget that the user is at is hidden
        self.wants_whole = False  # the review is to have the whole window, however wide that is
        self.hidden_pane = ""  # the side pane that was hidden in favour of the focused widget when the window narrowed
        self.open_files: tuple[str, ...] = ()
        self.visited: list[tuple[str, int, int]] = []  # earlier positions in the preview: path, line and column

    @property
    def is_mounted(self) -> bool:
        """True once the files or a side pane have been mounted."""
        return self.side is not None or bool(self.context.screen.query("#left"))

    @property
    def is_narrow(self) -> bool:
        """True if a pane that is open covers the conversation and the prompt."""
        return self.context.screen.classes.isdisjoint({"-wide", "-broad"})

    @property
    def covers_chat(self) -> bool:
        """True while a pane covers the conversation and the prompt."""
        classes = self.context.screen.classes
        return "-whole" in classes or (self.is_narrow and not classes.isdisjoint({"-side", "-files"}))

    @property
    def side(self) -> SidePane | None:
        return next(iter(self.context.screen.query(SidePane)), None)

    @property
    def review(self) -> ReviewPane | None:
        return cast("ReviewPane | None", self._get_pane("review"))

    @property
    def plan(self) -> PlanPanel | None:
        return cast("PlanPanel | None", self._get_pane("plan"))

    @property
    def plan_beside(self) -> str:
        """The path of the plan that its panel shows beside the conversation, "" = none."""
        is_shown = self.side is not None and self.side.current == "plan" and not self.is_narrow
        return self.context.state.current_plan_path if is_shown else ""

    @property
    def preview(self) -> FilePreview | None:
        return cast("FilePreview | None", self._get_pane("preview"))

    def _get_pane(self, name: str) -> Widget | None:
        return self.side.get_pane(name) if self.side is not None else None

    def list_focusable(self) -> Iterator[Widget]:
        """Yield the focusable widgets of the visible side pane, then the file tree."""
        if self.side is not None and (pane := self._get_pane(self.side.current)) is not None:
            yield from (child for child in pane.walk_children(Widget, with_self=True) if child.focusable)
        yield from self.context.screen.query("FileTree").results(Widget)

    # Actions

    async def action_toggle_files(self) -> None:
        containers = self.context.screen.query("#left")
        if containers and containers.first().display:
            self.context.screen.remove_class("-files")
            self.context.focus_prompt()
            return
        await self._hide_side_if_narrow()
        await self.show_files()
        self.context.screen.query_one("#left").focus()

    async def action_show_pane(self, name: str) -> None:
        """Show a side pane and go there; hide it when it has the focus."""
        side, widget = self.side, self.context.screen.focused
        if name == "review" and self.context.prompt.wants_redo:  # its key is Vim's for that
            raise SkipAction
        if side is not None and side.current == name and widget is not None and side in widget.ancestors_with_self:
            self._hide_side()
            self._focus_below()
        else:
            await self.show(name)

    async def action_open_plan(self, _: str = "") -> None:
        await self.show("plan")

    async def run_scoped_action(self, scope: str, action: str) -> None:
        """Run the action of a key in its scope; this shows the pane of the scope."""
        screen = self.context.screen
        if scope == "app":
            await screen.run_action(action)
            return
        if scope not in {"prompt", "transcript", "approval", "question"}:
            await self.ensure_shown("review" if scope == "changes" else scope)
        widget = next((candidate for candidate in screen.query(ACTION_SCOPES[scope]) if candidate.display), None)
        if widget is None:
            self.context.notify_user("Not available now.")
            return
        widget.focus()
        await widget.run_action(action)

    # Showing and hiding

    async def show(self, name: str, *, focus: bool = True) -> None:
        """Show a side pane; it gets the focus unless it opened automatically."""
        async with self._mounting:
            if (side := self.side) is None:
                side = SidePane(self, id="side")
                _ = self.context.screen.query_one("#body").mount(side)
            await wait_until_mounted(side)
            pane: Any = await side.show(name)
        self.hidden_pane = ""
        self.awaits_focus = self.awaits_focus or focus  # a pane that opens by itself takes nothing back
        self.context.screen.add_class("-side")
        if name != "review":
            self.context.screen.remove_class("-whole")
        elif focus and self._takes_whole:  # now: half a window that is a whole one a frame later would flicker
            self.context.screen.add_class("-whole")
        self._update_side(frozenset({"review", "plan", "debug", "agents"}))
        if name == "review":
            pane.browser.start_grace()
        if focus:
            pane.focus()
            self.context.screen.app.call_later(self._end_focusing)  # the focus itself is set by an earlier call

    def _end_focusing(self) -> None:
        self.awaits_focus = False
        self.fit_review()

    @property
    def _takes_whole(self) -> bool:
        """True if the review needs the whole window while it has the focus."""
        return self.wants_whole or self.context.screen.size.width < WHOLE_WIDTH

    def fit_review(self) -> None:
        """Give the review the whole window while it has the focus, where half of it is too narrow for code. A press of
        the mouse ends in the layout in which it began, and a dialog changes nothing."""
        screen, review = self.context.screen, self.review
        if screen.focused is None or screen.app.screen is not screen or self.awaits_focus or is_button_down(screen):
            return
        is_here = review is not None and review.has_focus_within and screen.focused is not self.refuge
        is_whole = is_here and self._takes_whole
        if is_whole != screen.has_class("-whole"):
            screen.set_class(is_whole, "-whole")
            screen.app.stylesheet.update(screen)  # at once: the next key may be on its way to the prompt

    async def show_beside(self, name: str) -> None:
        """Show a side pane that is due automatically; hide it again if the window has narrowed meanwhile."""
        await self.show(name, focus=False)
        if self.is_narrow:
            self.uncover_prompt()

    async def show_files(self) -> None:
        screen = self.context.screen
        if not screen.query("#left"):
            from tui.files.pane import FilePane

            files = FilePane(self._load_tree, self._find_files, id="left")
            _ = screen.query_one("#body").mount(files, before="#centre")
        await wait_until_mounted(screen.query_one("#left"))
        self._update_tree(frozenset())  # the task that mounted it may have been cancelled before its update
        screen.add_class("-files")

    async def ensure_shown(self, name: str) -> None:
        """Show "files" or a side pane, unless it is there already."""
        if name == "files":
            await self._hide_side_if_narrow()
            await self.show_files()
        elif self.side is None or self.side.current != name:
            await self.show(name, focus=False)

    async def leave_pane(self) -> None:
        """Return to the prompt, and hide the side pane or the files that cover it."""
        side = self.side
        if self.is_narrow and (side is None or not side.current):
            self.context.screen.remove_class("-files")
        await self._hide_side_if_narrow()
        self._focus_below()

    def _focus_below(self) -> None:
        if self.is_narrow and self.context.screen.has_class("-files"):
            self.context.screen.query_one("#left").focus()
        else:
            self.context.focus_prompt()

    async def _hide_side_if_narrow(self) -> None:
        """Hide the side pane below 100 columns, where only one pane fits; end the review's full width."""
        self.context.screen.remove_class("-whole")
        if self.is_narrow:
            self._hide_side()

    def _hide_side(self) -> None:
        if (side := self.side) is not None:
            side.hide()
        self.context.screen.remove_class("-side", "-whole")
        self.hidden_pane = ""

    def uncover_prompt(self) -> None:
        """Uncover the conversation, the prompt and questions."""
        screen = self.context.screen
        screen.remove_class("-whole")
        if self.is_narrow:
            current = self.side.current if self.side else ""
            self._hide_side()
            self.hidden_pane = current
            screen.remove_class("-files")
        screen.app.stylesheet.update(screen)  # at once: the next key may be on its way to the prompt

    def restore_hidden_pane(self) -> None:
        """Show the pane again that was hidden because the window got narrow, once there is room; without the focus."""
        if self.hidden_pane and not self.is_narrow:
            self.context.start(partial(self.show_beside, self.hidden_pane), group="panes")

    def restore_verdict(self, path: str, reason: str = "") -> None:
        """Allow another verdict on hunks of a file ("" = any) after the engine rejected one."""
        if self.review is not None:
            self.review.reopen(path, reason)
            self.review.browser.show_file(path)

    @on(FileSelected)
    async def _preview_selected(self, event: FileSelected) -> None:
        await self.preview_file(event.path)

    async def preview_file(self, path: str, line: int = 0, column: int = 1, *, is_back: bool = False) -> None:
        """Preview a file with the cursor at a position from 1; record the previous position, unless this `is_back`."""
        viewing = self.preview.viewing if self.preview is not None else None
        if (
            self.preview is not None
            and viewing is not None
            and not is_back
            and (viewing.path, viewing.line) != (path, line)
        ):
            self.visited = [*self.visited[-MAX_VISITED:], (viewing.path, viewing.line, self.preview.column)]
        self.open_files = (path, *(open_file for open_file in self.open_files if open_file != path))[:MAX_OPEN_FILES]
        await self.show("preview", focus=self.is_narrow)
        if self.side is not None and self.preview is not None:
            self.preview.set_diagnostics(self.context.state.review.diagnostics)
            self.preview.show(path, line, column)
            self.side.set_count("preview", format_path(path, 40))

    @property
    def viewing(self) -> Viewing | None:
        """The position in view of the preview; None: it is hidden or empty."""
        preview = self.preview if self.side is not None and self.side.current == "preview" else None
        return preview.viewing if preview is not None else None

    # Feeding

    async def update(self, topics: frozenset[Topic]) -> None:
        """Pass changes of the state to the panes, and show a pane that is due in this mode, where there is room."""
        state = self.context.state
        if "files" in topics or "review" in topics:
            paths, state.touched_paths = frozenset(state.touched_paths), set()
            is_any, state.is_any_touched = state.is_any_touched, False
            self._update_tree(paths, is_any=is_any)
            if (preview := self.preview) is not None:
                preview.refresh_paths(frozenset() if is_any else paths)
                preview.set_diagnostics(state.review.diagnostics)
        self._update_side(topics)
        panes = SCREEN_MODES[state.mode].panes
        self._auto_shown -= {pane.name for pane in panes if not pane.is_due(state)}
        due = next((pane for pane in panes if not self.is_narrow and self._is_due(pane, topics)), None)
        if due is not None:
            self._auto_shown.add(due.name)
            await self.show_beside(due.name)

    def _is_due(self, pane: AutoPane, topics: frozenset[Topic]) -> bool:
        state = self.context.state
        if topics.isdisjoint(pane.topics) or not pane.is_due(state) or pane.is_held_back(state):
            return False
        if self.side is not None and self.side.has_focus_within and self.side.current != pane.name:
            return False  # the user is at work in another one
        if self.side is not None and self.side.current == REVIEW.name != pane.name and REVIEW.is_due(state):
            return False  # hunks wait in view; the title names what is new
        if pane.repeats == "never":
            return self._get_pane(pane.name) is None
        return pane.repeats == "always" or pane.name not in self._auto_shown

    def _update_tree(self, paths: frozenset[str], *, is_any: bool = False) -> None:
        state = self.context.state
        for tree in self.context.screen.query("FileTree"):
            file_tree: Any = tree
            file_tree.set_marks({path: change.operation for path, change in state.changes.items()})
            file_tree.set_diagnostics(summarize_diagnostics(state.review.diagnostics))
            if is_any:
                file_tree.refresh_all()
            elif paths:
                file_tree.refresh_paths(paths)

    def _update_side(self, topics: frozenset[Topic]) -> None:
        side, state = self.side, self.context.state
        if side is None:
            return
        for spec in PANES:
            if not topics.isdisjoint(spec.topics):
                if spec.badge is not None:
                    side.set_count(spec.name, spec.badge(state))
                if (pane := side.get_pane(spec.name)) is not None:
                    pane.show_state(state)

    async def load_probe_log(self, query: queries.ProbeLogQuery) -> queries.ProbeLogAnswer | None:
        return await self.context.query(query, queries.ProbeLogAnswer)

    def is_deleted(self, path: str) -> bool:
        change = self.context.state.changes.get(path)
        return change is not None and change.operation == "delete"

    async def _load_tree(self, path: str) -> queries.TreeAnswer:
        answer = await self.context.bridge.query(queries.TreeQuery(path=path))
        if isinstance(answer, queries.RefusedAnswer):
            from tui.files.file_tree import DirectoryRefused

            raise DirectoryRefused(answer.message.removeprefix(f"{path!r}: "))
        return answer if isinstance(answer, queries.TreeAnswer) else queries.TreeAnswer(path=path, entries=())

    async def _find_files(self, words: str) -> tuple[str, ...]:
        answer = await self.context.query(queries.FindQuery(pattern=words, limit=MAX_FOUND_FILES), queries.FindAnswer)
        return answer.paths if answer else ()

    async def load_file(self, path: str) -> queries.FileAnswer:
        # files to be deleted exist only in the user's version
        side: Literal["pending", "workspace"] = "workspace" if self.is_deleted(path) else "pending"
        answer = await self.context.bridge.query(queries.FileQuery(path=path, side=side))
        if isinstance(answer, queries.FileAnswer):
            return answer
        problem = answer.message if isinstance(answer, queries.RefusedAnswer) else "Can't read it."
        return queries.FileAnswer(path=path, text="", problem=problem)

    async def load_diff(self, path: str, context: int) -> ChangeDiff | None:
        answer = await self.context.bridge.query(queries.DiffQuery(path=path, context=context))
        if isinstance(answer, queries.RefusedAnswer):
            raise AgentTuiError(answer.message, hint=answer.hint)
        return answer.diff if isinstance(answer, queries.DiffAnswer) else None


class FocusController(Controller):
    """Checks after each layout whether the focused widget is still visible."""

    def __init__(self, context: ScreenContext, panes: PaneController) -> None:
        super().__init__(context)
        self._panes = panes
        self._displaced: Widget | None = None

    def move_hidden_focus(self) -> None:
        screen = self.context.screen
        widget = screen.focused
        if self._panes.awaits_focus:  # a layout before that would uncover the prompt, which hides the pane
            return
        if widget is not None and get_visibility(widget) == "hidden":
            if self._bring_to_front(widget):  # it is visible, and has the focus, after the next layout
                self._displaced = widget
                screen.set_focus(None)
                return
            if widget is not self._panes.refuge:
                self._displaced = widget
            self._focus_fallback()
        elif self._displaced is not None and get_visibility(self._displaced) == "seen":
            self._restore_focus(widget)
        elif widget is None:
            self._focus_fallback()

    def _restore_focus(self, widget: Widget | None) -> None:
        """Return the focus to the prompt after it was moved; to a pane with commands only if no widget has it."""
        displaced_widget = self._displaced
        if widget is None or (widget is self._panes.refuge and isinstance(displaced_widget, Prompt)):
            self.context.screen.set_focus(displaced_widget, scroll_visible=False)
            self._displaced = self._panes.refuge = None

    def _focus_fallback(self) -> None:
        """Focus the first visible one of the prompt, the side pane and the files."""
        refuges = [self.context.prompt, *self._panes.list_focusable()]
        self._panes.refuge = next((refuge for refuge in refuges if get_visibility(refuge) == "seen"), None)
        self.context.screen.set_focus(self._panes.refuge, scroll_visible=False)

    def _bring_to_front(self, widget: Widget) -> bool:
        """Hide the pane that covers `widget` in a window that got narrow, if text is written or answered there."""
        screen = self.context.screen
        if screen.has_class("-tiny") or screen.has_class("-flat"):
            return False
        if not self._panes.covers_chat or screen.query_one("#centre") not in widget.ancestors or not widget.display:
            return False
        self._panes.uncover_prompt()
        return True

    @on(events.DescendantFocus)
    def _forget_displaced(self, event: events.DescendantFocus) -> None:
        if event.widget is not self._panes.refuge:
            self._displaced = self._panes.refuge = None

    @on(events.ScreenSuspend)
    def _restart_grace_periods(self) -> None:
        """Restart the grace periods of the panes that a dialog covers."""
        for widget in self.context.screen.query("*").results(Widget):
            getattr(widget, "restart_grace", lambda: None)()
