"""The browser of the review: one change with its lines, or everything pending as a list. The cursor stays in place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from core.protocol.review import Bulk, Change, ChangeDiff, Comment, Hunk
from tui.input.visibility import PaneAttention, get_seconds_since_struck
from tui.keymap import get_keymap, insert_keys
from tui.quantities import count
from tui.review import messages
from tui.review.change_list import ChangeList
from tui.review.descriptions import (
    EMPTY,
    NOTHING_PENDING,
    Part,
    describe_change,
    describe_problem,
)
from tui.review.diff_layout import build_buttons_target
from tui.review.diff_view import SPLIT_WIDTH, DiffView
from tui.review.header import ReviewHeader
from tui.review.verdicts import SentVerdicts
from tui.text import fit_line, format_path
from tui.widgets.delayed_load import DelayedLoad
from tui.widgets.diagnostics import NO_REPORTS, DiagnosticReports
from tui.widgets.row_view import RowView
from tui.widgets.text_rows import measure_pieces

GRACE: Final = 0.5  # seconds
UNKNOWN_WIDTH: Final = 1_000  # columns, as long as the width is not known

Goal = Literal["first", "last", "keep"] | int


class ChangeBrowser(Vertical):
    """`load(path)` returns a change with its lines, None when nothing is pending there any more."""

    DEFAULT_CSS = """
    ChangeBrowser { height: 1fr; }
    ChangeBrowser > .review--origin { height: 1; text-wrap: nowrap; text-overflow: ellipsis; background: $surface; }
    ChangeBrowser > .review--risk { height: auto; max-height: 2; padding: 0 1; color: $text-error; }
    ChangeBrowser > .review--risk { background: $error-muted; }
    ChangeBrowser > .review--risk.-label { color: $text-warning; background: $surface; }
    ChangeBrowser > .review--conflict { height: auto; max-height: 4; padding: 0 1; }
    ChangeBrowser > .review--conflict { color: $text-warning; background: $warning-muted; }
    ChangeBrowser > HunkEditor, ChangeBrowser > HunkEditor:focus { height: 1fr; border: none; padding: 0; }
    """

    def __init__(
        self, load: Callable[[str], Awaitable[ChangeDiff | None]], sent: SentVerdicts, *, clock: Callable[[], float]
    ) -> None:
        super().__init__()
        self._load, self._sent, self._clock = load, sent, clock
        self.changes: tuple[Change, ...] = ()
        self.bulks: tuple[Bulk, ...] = ()
        self.comments: Mapping[tuple[str, str], Comment] = {}
        self._diagnostics: DiagnosticReports = NO_REPORTS
        self._origin_names: tuple[Mapping[str, int], Mapping[str, str]] = ({}, {})
        self.index = 0
        self._header = ReviewHeader()
        self.is_list_shown = False
        self.attention = PaneAttention(GRACE, clock)
        self._loading = DelayedLoad(
            self, "review.load", show_progress=self._show_progress, show_failure=self._show_failure
        )

    def compose(self) -> ComposeResult:
        yield from self._header.widgets
        listed = ChangeList(clock=self._clock)
        listed.display = False
        yield listed
        yield DiffView(clock=self._clock)

    def on_mount(self) -> None:
        self._show_file("first")

    def on_resize(self) -> None:
        self.render_header()

    def set_surroundings(
        self,
        bulks: tuple[Bulk, ...],
        comments: Mapping[tuple[str, str], Comment],
        diagnostics: DiagnosticReports,
        origin_names: tuple[Mapping[str, int], Mapping[str, str]],
    ) -> None:
        """Set bulks, comments, diagnostics, turn numbers and todo texts; `set_changes` follows."""
        if bulks and not self.bulks and not self.changes:
            self.start_grace()
        self.bulks, self.comments, self._origin_names = bulks, dict(comments), origin_names
        self._diagnostics = dict(diagnostics)
        self._sent.bulks &= {bulk.root for bulk in bulks}

    def set_changes(self, changes: tuple[Change, ...], *, before_undo: frozenset[str] | None = None) -> bool:
        """Set the pending changes; the cursor stays, or goes to the first hunk not in `before_undo`: then True."""
        path, loaded = self._get_path(), self.get_diff()
        if changes and not self.changes:
            self.start_grace()
        known = {change.path: change for change in self.changes}
        self.changes = changes
        unchanged = [each.path for each in changes if each == known.get(each.path)]
        conflicting = self._sent.forget_answered(changes, unchanged)
        if before_undo is not None and self._go_to_restored_hunk(before_undo):
            return True
        if self.return_to_hunk(conflicting):
            return False
        paths = [change.path for change in changes]
        stays = path in paths
        self.index = paths.index(path) if stays else max(min(self.index, len(paths) - 1), 0)
        if self.is_mounted:
            if stays and loaded is not None and loaded.change == self.changes[self.index]:
                self.render_header()
            else:
                self._show_file("keep" if stays else "first")
        return False

    def _go_to_restored_hunk(self, before_undo: frozenset[str]) -> bool:
        for index, change in enumerate(self.changes if self.is_mounted else ()):
            for number, hunk in enumerate(change.hunks):
                if hunk.id not in before_undo:
                    self._go_to_file(index, number)
                    return True
        return False

    def return_to_hunk(self, refused: tuple[str, str]) -> bool:
        """Go back to a hunk whose verdict came to nothing."""
        for index, change in enumerate(self.changes if self.is_mounted else ()):
            if change.path == refused[0] and not self.is_list_shown:
                ids = [hunk.id for hunk in change.hunks]
                self._go_to_file(index, ids.index(refused[1]) if refused[1] in ids else "first")
                return True
        return False

    def show_file(self, path: str) -> None:
        for index, change in enumerate(self.changes):
            if change.path == path and index != self.index:
                self.index = index
                self._show_file("first")

    def focus(self, scroll_visible: bool = True) -> ChangeBrowser:
        if self.query(DiffView):
            (self.change_list if self.is_list_shown else self.diff_view).focus(scroll_visible)
        else:  # a key may come while the pane is still being put together
            self.call_later(self.focus, scroll_visible)
        return self

    def start_grace(self) -> None:
        """Ignore verdict keys for half a second: the pane has just appeared."""
        self.attention.note_shown()

    def restart_grace(self) -> None:
        """Forget what was visible: something covers the pane."""
        self.start_grace()
        for each in self.query(RowView):
            each.visibility.clear()
            each.redraw()

    on_hide = restart_grace

    def on_descendant_focus(self) -> None:
        self.attention.note_focus(self.has_focus_within)

    on_descendant_blur = on_descendant_focus

    def is_too_early(self, *, by_mouse: bool = False) -> bool:
        """True if the key was meant for something that was here before."""
        return self.attention.is_too_early(get_seconds_since_struck(self), by_mouse=by_mouse)

    def is_unseen(self, *, by_mouse: bool = False) -> bool:
        """True if the target of a verdict was not visible long enough; it is scrolled into view."""
        ago = get_seconds_since_struck(self)
        diff, at = self.get_diff(), self.diff_view.current
        if by_mouse and diff is not None and at >= 0:
            buttons = build_buttons_target(diff, at)
            return not self.diff_view.visibility.is_visible_for(buttons, at_least=GRACE, since_struck=ago)
        target: Hashable = (diff.change.path, diff.change.hunks[at].id) if diff is not None and at >= 0 else None
        if self.is_list_shown:
            row = self.change_list.current_row
            target = self.change_list.get_target(row) if row is not None else None
        place = self.change_list if self.is_list_shown else self.diff_view
        needed = self.attention.seconds_needed
        if target is None or place.visibility.is_visible_for(target, at_least=needed, since_struck=ago):
            return False
        place.reveal_current()
        return True

    def find_judgeable_hunk(self) -> tuple[str, Hunk] | None:
        """Return path and hunk under the cursor if it is pending and has been seen."""
        diff, at = self.get_diff(), self.diff_view.current
        if diff is None or at < 0 or self.is_list_shown or self.is_sent(at):
            return None
        return None if self.is_too_early() or self.is_unseen() else (diff.change.path, diff.change.hunks[at])

    @property
    def diff_view(self) -> DiffView:
        return self.query_one(DiffView)

    @property
    def change_list(self) -> ChangeList:
        return self.query_one(ChangeList)

    @property
    def current_change(self) -> Change | None:
        """The change under the cursor, in the list as well."""
        if self.is_list_shown:
            row = self.change_list.current_row
            return self.changes[row.members[0]] if row is not None and row.members else None
        return self.changes[self.index] if self.changes else None

    def _get_path(self) -> str:
        return self.changes[self.index].path if self.changes else ""

    def get_diff(self) -> ChangeDiff | None:
        """Return the diff on screen if it belongs to the current file."""
        diff = self.diff_view.diff if self.is_mounted else None
        return diff if diff is not None and diff.change.path == self._get_path() else None

    def is_sent(self, hunk: int) -> bool:
        diff = self.get_diff()
        return diff is not None and hunk >= 0 and diff.change.hunks[hunk].id in self._sent.get_hunks(diff.change.path)

    def render_header(self) -> None:
        change = self.changes[self.index] if self.changes and not self.is_list_shown else None
        origin = self._describe_list() if self.is_list_shown else self._describe_origin(change)
        listed = () if change is None else self.changes
        self._header.show_files(listed, self.index, frozenset(self._sent.hunks), self._diagnostics)
        self._header.show_texts(change, origin, self._describe_problem(change))
        path = self._get_path()
        self.diff_view.set_sent(self._sent.get_hunks(path))
        comments = {hunk: each.text for (commented, hunk), each in self.comments.items() if commented == path != ""}
        self.diff_view.set_comments(comments)
        self.diff_view.set_diagnostics(self._diagnostics.get(path))
        if self.is_list_shown:
            self.change_list.show(self.changes, self.bulks, {*self._sent.hunks, *self._sent.bulks}, self._diagnostics)

    def _describe_problem(self, change: Change | None) -> str:
        """Return why this change can't be accepted, or what came of its verdict; in the list: of the last refused."""
        refused, keymap = self._sent.refused, get_keymap(self.app)
        if not self.is_list_shown or not refused:
            return describe_problem(change, refused.get(change.path), keymap) if change else ""
        path, why = next(reversed(refused.items()))
        listed = next((each for each in self.changes if each.path == path), None)
        text = describe_problem(listed, why, keymap) if listed else f"! Not done: {why}"
        return f"! {format_path(path, 60)}: {text.removeprefix('! ')}"

    def _describe_waiting(self) -> list[Part]:
        waits = [f"{len(self.bulks)} in bulk ({{review.list}})"] if self.bulks and not self.is_list_shown else []
        if count := len(self.comments):
            waits.append(f"{count} comment{'s' if count > 1 else ''} ({{review.send}} sends)")
        return [(insert_keys(f" {' · '.join(waits)} ", get_keymap(self.app)), "$text-warning")] if waits else []

    def _describe_origin(self, change: Change | None) -> list[Part]:
        parts = self._describe_waiting()
        room = (self.size.width or UNKNOWN_WIDTH) - measure_pieces(parts)
        return parts + (describe_change(change, *self._origin_names, room) if change is not None else [])

    def _describe_list(self) -> list[Part]:
        pattern = fit_line(self.change_list.pattern, 40)
        counts = [count("file", len(self.changes))] if self.changes else []
        counts += [f"{len(self.bulks)} in bulk, judged as a whole"] if self.bulks else []
        parts = [*self._describe_waiting(), (f" {' · '.join(counts)}", "bold")]
        return [*parts, (f"  / {pattern}", "$text-primary")] if pattern else parts

    def _show_file(self, goal: Goal) -> None:
        if not self.changes:
            self._loading.cancel()
            self.diff_view.show_message(insert_keys(EMPTY, get_keymap(self.app)), is_final=True)
            self.show_list(bool(self.bulks))
            return
        self.render_header()
        self._loading.start(partial(self._load_diff, self._get_path(), goal))

    async def _load_diff(self, path: str, goal: Goal) -> None:
        diff = await self._load(path)
        self._loading.finish()
        if path != self._get_path():
            return
        if diff is None:
            self.diff_view.show_message(insert_keys(NOTHING_PENDING, get_keymap(self.app)))
            return
        last = len(diff.change.hunks) - 1
        places = {"first": 0, "last": last, "keep": None}
        self.diff_view.show(diff, min(goal, last) if isinstance(goal, int) else places[goal])
        if goal == "first" and self.is_sent(self.diff_view.current):
            self.go_to_next_unsent()

    def _show_progress(self) -> None:
        if self.get_diff() is None:
            self.diff_view.show_message("Reading the change…")

    def _show_failure(self, problem: str) -> None:
        self.diff_view.show_message(f"The change can't be shown\n\n{problem}")

    def show_list(self, is_shown: bool) -> None:
        had_focus = self.diff_view.has_focus or self.change_list.has_focus
        self.is_list_shown = is_shown
        self.change_list.display, self.diff_view.display = is_shown, not is_shown
        self.render_header()
        if is_shown:
            self.change_list.select_change(self.index)
        if had_focus:
            self.focus()

    def toggle_list(self) -> None:
        if self.changes or self.bulks:
            self.show_list(not self.is_list_shown or not self.changes)

    def set_filter(self, pattern: str) -> None:
        self.change_list.set_filter(pattern)
        self.render_header()

    @on(messages.ChangeOpened)
    def _on_change_opened(self, event: messages.ChangeOpened) -> None:
        event.stop()
        if self.is_list_shown:
            self.show_list(False)
        if event.index < len(self.changes):
            self._go_to_file(event.index, "first")
        self.focus()

    def move_hunk(self, step: int) -> None:
        """Go to the next or previous hunk, across files; in the list: to the next row."""
        diff, target = self.get_diff(), self.diff_view.current + step
        if self.is_list_shown or diff is None or not 0 <= target < len(diff.change.hunks):
            self.move_file(step, "first" if step > 0 else "last")
        else:
            self.attention.note_moved(by_hand=True)
            self.diff_view.select_hunk(target)

    def move_file(self, step: int, goal: Goal = "first") -> None:
        self.attention.note_moved(by_hand=True)
        if self.is_list_shown:
            self.change_list.action_move(step)
        elif 0 <= self.index + step < len(self.changes):
            self._go_to_file(self.index + step, goal)

    def _go_to_file(self, index: int, goal: Goal) -> None:
        self.index = index
        self._show_file(goal)

    def go_to_next_unsent(self) -> None:
        """Go to the next hunk without a verdict: after this one, before it, then in the next such file."""
        diff, current = self.get_diff(), self.diff_view.current
        if diff is not None:
            count = len(diff.change.hunks)
            open_hunks = [each for each in (*range(current, count), *range(current)) if not self.is_sent(each)]
            if open_hunks:
                self.diff_view.select_hunk(open_hunks[0])
                return
        count = len(self.changes)
        for index in (*range(self.index + 1, count), *range(self.index)):
            if self._sent.list_unsent(self.changes[index]):
                self._go_to_file(index, "first")
                return

    def toggle_columns(self) -> None:
        wants = not self.diff_view.is_split
        self.diff_view.set_split(wants)
        self.post_message(messages.WidthRequested(SPLIT_WIDTH + 1 if wants else 0))
