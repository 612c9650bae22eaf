"""The view of the review: a change with its lines and its origin, and everything pending as a list.

The cursor stays where it is while changes come and go. No verdict is given here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from core.protocol.review import Bulk, Change, ChangeDiff, Comment, Verdict
from tui.input.visibility import PaneAttention
from tui.review import messages
from tui.review.change_list import ChangeList
from tui.review.descriptions import EMPTY, NOTHING_PENDING, Part, describe_change, describe_problem, describe_risk
from tui.review.diff_view import SPLIT_WIDTH, DiffView
from tui.review.file_strip import FileStrip
from tui.review.input_line import ReviewInput
from tui.text import clean, fit_line, format_path, to_content
from tui.widgets.code_view import CodeView, measure_text
from tui.workers import start_worker

PROGRESS_DELAY: Final = 0.5
GRACE: Final = 0.5  # seconds
UNKNOWN_WIDTH: Final = 1_000  # columns, as long as the width is not known

Goal = Literal["first", "last", "keep"] | int


class ReviewView(Vertical):
    """`load(path)` returns a change with its lines, None when nothing is pending there any more."""

    def __init__(
        self,
        load: Callable[[str], Awaitable[ChangeDiff | None]],
        *,
        clock: Callable[[], float] = monotonic,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._load, self._clock = load, clock
        self._changes: tuple[Change, ...] = ()
        self._bulks: tuple[Bulk, ...] = ()
        self._comments: Mapping[tuple[str, str], Comment] = {}
        self._origin_names: tuple[Mapping[str, int], Mapping[str, str]] = ({}, {})
        self._index = 0
        self.attention = PaneAttention(GRACE, self.read_clock)
        self._sent: dict[str, dict[str, Verdict]] = {}
        self._sent_bulks: set[str] = set()
        self._refused: dict[str, str] = {}
        self._progress_timer: Timer | None = None
        self._before_undo: frozenset[str] | None = None
        self._is_list_shown = False

    def read_clock(self) -> float:
        return self._clock()

    def compose(self) -> ComposeResult:
        yield FileStrip()
        for name in ("review--origin", "review--risk", "review--conflict"):
            line = Static(classes=name)
            line.display = False
            yield line
        listed = ChangeList(clock=self.read_clock)
        listed.display = False
        yield listed
        yield DiffView(clock=self.read_clock)
        asked = ReviewInput(compact=True)
        asked.display = False
        asked.cursor_blink = False  # a blinking cursor writes to the terminal while nothing happens
        yield asked

    def on_mount(self) -> None:
        self._show_file("first")

    def on_resize(self) -> None:
        self._show_header()

    # What the screen tells

    def set_surroundings(
        self,
        bulks: tuple[Bulk, ...],
        comments: Mapping[tuple[str, str], Comment],
        turns: Mapping[str, int],
        todos: Mapping[str, str],
    ) -> None:
        """Set bulks, comments, turn numbers and todo texts; `set_changes` follows."""
        if bulks and not self._bulks and not self._changes:
            self.start_grace()
        self._bulks, self._comments, self._origin_names = bulks, dict(comments), (turns, todos)
        self._sent_bulks &= {bulk.root for bulk in bulks}

    def set_changes(self, changes: tuple[Change, ...]) -> None:
        """Set the pending changes; the cursor stays where it is as far as that still exists."""
        path, loaded = self._get_current_path(), self._get_current_diff()
        if changes and not self._changes:
            self.start_grace()
        known = {change.path: change for change in self._changes}
        self._changes = changes
        still = [each.path for each in changes if each == known.get(each.path)]
        self._refused = {path: why for path, why in self._refused.items() if path in still}
        refused = self._forget_resolved()
        if self._show_restored_hunk() or self._return_to_hunk(refused):
            return
        paths = [change.path for change in changes]
        stays = path in paths
        self._index = paths.index(path) if stays else max(min(self._index, len(paths) - 1), 0)
        if not self.is_mounted:
            return
        if stays and loaded is not None and loaded.change == self._changes[self._index]:
            self._show_header()
        else:
            self._show_file("keep" if stays else "first")

    def _show_restored_hunk(self) -> bool:
        """Go to the first hunk that an undo brought back."""
        before = self._before_undo
        for index, change in enumerate(self._changes if before is not None and self.is_mounted else ()):
            for number, hunk in enumerate(change.hunks):
                if hunk.id not in (before or ()):
                    self._before_undo = None
                    self._go_to_file(index, number)
                    return True
        return False

    def _return_to_hunk(self, refused: tuple[str, str]) -> bool:
        """Go back to a hunk whose verdict came to nothing."""
        for index, change in enumerate(self._changes if self.is_mounted else ()):
            if change.path == refused[0] and not self._is_list_shown:
                ids = [hunk.id for hunk in change.hunks]
                self._go_to_file(index, ids.index(refused[1]) if refused[1] in ids else "first")
                return True
        return False

    def start_grace(self) -> None:
        """Ignore verdict keys for half a second: the pane has just appeared."""
        self.attention.note_shown()

    def restart_grace(self) -> None:
        """Forget what was visible: something covers the pane."""
        self.start_grace()
        for each in self.query(CodeView):
            each.visibility.clear()
            each.redraw()

    on_hide = restart_grace

    def on_descendant_focus(self) -> None:
        self.attention.note_focus(self.has_focus_within)

    on_descendant_blur = on_descendant_focus

    def show_file(self, path: str) -> None:
        """Go to a changed file."""
        for index, change in enumerate(self._changes):
            if change.path == path and index != self._index:
                self._index = index
                self._show_file("first")

    def focus(self, scroll_visible: bool = True) -> ReviewView:
        if self.query(DiffView):
            (self._list if self._is_list_shown else self._view).focus(scroll_visible)
        else:  # a key may come while the pane is still being put together
            self.call_later(self.focus, scroll_visible)
        return self

    # What is shown

    @property
    def _view(self) -> DiffView:
        return self.query_one(DiffView)

    @property
    def _list(self) -> ChangeList:
        return self.query_one(ChangeList)

    def _get_current_path(self) -> str:
        return self._changes[self._index].path if self._changes else ""

    def _get_current_diff(self) -> ChangeDiff | None:
        """Return the diff on screen if it belongs to the current file."""
        diff = self._view.diff if self.is_mounted else None
        return diff if diff is not None and diff.change.path == self._get_current_path() else None

    def _forget_resolved(self) -> tuple[str, str]:
        """Drop sent verdicts whose hunk is gone or conflicts.

        Return path and hunk of one in conflict, else "" and "".
        """
        hunks = {change.path: {hunk.id for hunk in change.hunks} for change in self._changes}
        clashing = {change.path: change for change in self._changes if change.conflict}
        sent = {path: {i: v for i, v in each.items() if i in hunks.get(path, ())} for path, each in self._sent.items()}
        refused = ("", "")
        for path, each in sent.items():
            if path in clashing and (
                wanted := [
                    i for i, verdict in each.items() if verdict == "accept" and not clashing[path].is_hunk_clean(i)
                ]
            ):
                refused, self._refused[path] = (path, wanted[0]), ""
                sent[path] = {i: verdict for i, verdict in each.items() if i not in wanted}
        self._sent = {path: each for path, each in sent.items() if each}
        return refused

    def _show_header(self) -> None:
        change = self._changes[self._index] if self._changes else None
        files = self.query_one(FileStrip)
        files.show(self._changes, self._index, frozenset(self._sent))
        files.display = change is not None and not self._is_list_shown
        self._show_origin(change)
        self._show_line("review--risk", describe_risk(change) if change else "")
        self.query_one(".review--risk").set_class(change is not None and not change.protected, "-label")
        self._show_problem(change)
        self._view.set_sent(self._sent.get(self._get_current_path(), {}))
        said = {hunk: each.text for (path, hunk), each in self._comments.items() if change and path == change.path}
        self._view.set_comments(said)
        if self._is_list_shown:
            self._list.show(self._changes, self._bulks, {*self._sent, *self._sent_bulks})

    def _show_problem(self, change: Change | None) -> None:
        """Show why this change cannot be accepted, or what its verdict failed for; in the list: the last one."""
        if not self._is_list_shown or not self._refused:
            text = describe_problem(change, self._refused.get(change.path)) if change else ""
            self._show_line("review--conflict", text)
            return
        path, why = next(reversed(self._refused.items()))
        found = next((each for each in self._changes if each.path == path), None)
        text = describe_problem(found, why) if found else f"! Not done: {why}"
        self._show_line("review--conflict", f"! {format_path(path, 60)}: {text.removeprefix('! ')}", in_list=True)

    def _show_line(self, name: str, text: str, *, in_list: bool = False) -> None:
        line = self.query_one(f".{name}", Static)
        line.display = bool(text) and (in_list or not self._is_list_shown)
        if text:
            line.update(to_content(text))

    def _show_origin(self, change: Change | None) -> None:
        """Show in one line where the change came from, whether it was checked, and what waits beside it."""
        waits = []
        if self._bulks and not self._is_list_shown:
            waits.append(f"{len(self._bulks)} in bulk (l)")
        if self._comments:
            count = len(self._comments)
            waits.append(f"{count} comment{'s' if count > 1 else ''} (S sends)")
        parts: list[Part] = [(f" {' · '.join(waits)} ", "$text-warning")] if waits else []
        if self._is_list_shown:
            count, pattern = len(self._changes), fit_line(self._list.pattern, 40)
            named = [f"{count:,} file{'' if count == 1 else 's'}"] if count else []
            named += [f"{len(self._bulks)} in bulk, judged as a whole"] if self._bulks else []
            parts.append((f" {' · '.join(named)}", "bold"))
            parts += [(f"  / {pattern}", "$text-primary")] if pattern else []
        elif change is not None:
            room = (self.size.width or UNKNOWN_WIDTH) - sum(measure_text(text) for text, _ in parts)
            parts += describe_change(change, *self._origin_names, room)
        line = self.query_one(".review--origin", Static)
        line.display = bool(parts)
        line.update(Content.assemble(*parts))

    def _show_file(self, goal: Goal) -> None:
        if not self._changes:
            self.workers.cancel_group(self, "review.load")
            self._stop_progress()
            self._view.show_message(EMPTY, is_final=True)
            self._show_list(bool(self._bulks))
            return
        self._show_header()
        if self._progress_timer is None:
            self._progress_timer = self.set_timer(PROGRESS_DELAY, self._show_progress)
        path = self._get_current_path()

        async def fetch() -> None:
            await self._load_diff(path, goal)

        _: Worker[None] = start_worker(self, fetch, group="review.load", exclusive=True, exit_on_error=False)

    async def _load_diff(self, path: str, goal: Goal) -> None:
        diff = await self._load(path)
        self._stop_progress()
        if path != self._get_current_path():
            return
        if diff is None:
            self._view.show_message(NOTHING_PENDING)
            return
        last = len(diff.change.hunks) - 1
        places = {"first": 0, "last": last, "keep": None}
        self._view.show(diff, min(goal, last) if isinstance(goal, int) else places[goal])
        if goal == "first" and self._is_sent(self._view.current):
            self._go_to_next_unsent()

    def _stop_progress(self) -> None:
        if self._progress_timer is not None:
            self._progress_timer.stop()
            self._progress_timer = None

    def _show_progress(self) -> None:
        if self._progress_timer is not None and self._get_current_diff() is None:
            self._view.show_message("Reading the change…")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.name == "review.load" and event.state is WorkerState.ERROR:
            self._stop_progress()
            self._view.show_message(f"The change can't be shown\n\n{clean(str(event.worker.error))}")

    # The list

    def _show_list(self, is_shown: bool) -> None:
        """Show the list in the place of the diff, or the diff again."""
        had_focus = self._view.has_focus or self._list.has_focus
        self._is_list_shown = is_shown
        self._list.display, self._view.display = is_shown, not is_shown
        self._show_header()
        if is_shown:
            self._list.select_change(self._index)
        if had_focus:
            self.focus()

    def action_toggle_list(self) -> None:
        """Switch between the list and the diff."""
        if self._changes or self._bulks:
            self._show_list(not self._is_list_shown or not self._changes)  # bulks have no hunks

    def _set_filter(self, pattern: str) -> None:
        self._list.set_filter(pattern)
        self._show_header()

    @on(ChangeList.Opened)
    def _on_file_opened(self, event: ChangeList.Opened) -> None:
        event.stop()
        self._show_list(False)
        if event.index < len(self._changes):
            self._go_to_file(event.index, "first")
        self.focus()

    # Moving

    def action_move_hunk(self, step: int) -> None:
        """Go to the next or previous hunk, across files; in the list: to the next row."""
        self.attention.note_moved(by_hand=True)
        if self._is_list_shown:
            self._list.move_cursor(step)
            return
        view, diff = self._view, self._get_current_diff()
        target = view.current + step
        if diff is not None and 0 <= target < len(diff.change.hunks):
            view.select_hunk(target)
        elif 0 <= self._index + step < len(self._changes):
            self._go_to_file(self._index + step, "first" if step > 0 else "last")

    def action_move_file(self, step: int) -> None:
        """Go to the next or previous file."""
        self.attention.note_moved(by_hand=True)
        if self._is_list_shown:
            self._list.move_cursor(step)
        elif 0 <= self._index + step < len(self._changes):
            self._go_to_file(self._index + step, "first")

    def _go_to_file(self, index: int, goal: Goal) -> None:
        self._index = index
        self._show_file(goal)

    def action_toggle_columns(self) -> None:
        """Switch between one column and two; two ask for the width that they need."""
        wants = not self._view.is_split
        self._view.set_split(wants)
        self.post_message(messages.WidthRequested(SPLIT_WIDTH + 1 if wants else 0))

    @on(DiffView.HunkSelected)
    def _on_hunk_selected(self, event: DiffView.HunkSelected) -> None:
        event.stop()
        self._view.select_hunk(event.index)

    @on(FileStrip.FileClicked)
    def _on_file_clicked(self, event: FileStrip.FileClicked) -> None:
        event.stop()
        if event.index < len(self._changes):
            self._go_to_file(event.index, "first")
        self.focus()

    # What heirs know

    def _is_sent(self, hunk: int) -> bool:
        diff = self._get_current_diff()
        return (
            diff is not None
            and hunk >= 0
            and diff.change.hunks[hunk].id in self._sent.get(self._get_current_path(), {})
        )

    def _go_to_next_unsent(self) -> None:
        raise NotImplementedError
