"""The browser of the review: all changes with their lines, or a list of everything pending. Updates never move the
cursor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from core.errors import AgentTuiError
from core.protocol.events import ProofProgressed
from core.protocol.queries import HunkAnswer
from core.protocol.review import Bulk, Change, ChangeDiff, Comment, Hunk, VerdictRecord
from core.text.counting import count
from tui.input.visibility import PaneAttention, get_seconds_since_struck
from tui.keymap import get_keymap, insert_keys
from tui.review import messages
from tui.review.change_list import ChangeList
from tui.review.descriptions import (
    COMMITTABLE,
    EMPTY,
    EMPTY_AT_ONCE,
    NOTHING_PENDING,
    Part,
    describe_change,
    describe_problem,
)
from tui.review.diff.layout import build_buttons_target, build_end_target, clean_lines
from tui.review.diff.page import DiffPage, PageSet
from tui.review.diff.painter import TWO_NUMBERS_WIDTH
from tui.review.diff.verdicts import (
    ReviewFrame,
    SentVerdicts,
    describe_list,
    describe_settled,
    describe_waiting,
    draw_meter,
    fold_judged,
    measure_progress,
)
from tui.review.diff.view import SPLIT_WIDTH, DiffView, LoadLines, PageLoader
from tui.review.hunk_editor import NumberedLine, find_context
from tui.review.proof_view import HunkPlace, ReviewProof, describe_judgement
from tui.text import fit_line, format_path
from tui.widgets.diagnostics import NO_REPORTS, DiagnosticReports
from tui.widgets.key_hints import Hint, HintsChanged
from tui.widgets.row_view import RowView
from tui.widgets.text_rows import measure_pieces

GRACE: Final = 0.5  # seconds
UNDO_HINT: Final[Hint] = ("review.undo", "undo")
COMMIT_HINT: Final[Hint] = ("review.comment", "commit")
NOT_YET: Final = "just appeared, press again"
REVEALED: Final = "brought into view, press again"
NOT_LOADED: Final = "the lines are not here yet, press again"
ANSWERED: Final = "already answered"
NONE_SEEN: Final = "nothing to accept was in view"
IN_LIST: Final = "open a hunk first: {changes.open}"
AT_END: Final = ("this is the first", "this is the last")
NEWS_TITLE: Final = "new since you last looked"
UNKNOWN_WIDTH: Final = 1_000  # columns, as long as the width is not known

Goal = Literal["first", "last", "keep"] | int


class ChangeBrowser(Vertical):
    """`load(path, context)` returns a change with its lines, None when nothing is pending there any more."""

    DEFAULT_CSS = """
    ChangeBrowser { height: 1fr; }
    ChangeBrowser > .review--progress { height: 1; text-wrap: nowrap; text-overflow: ellipsis; background: $surface; }
    ChangeBrowser > .review--origin { height: 1; text-wrap: nowrap; text-overflow: ellipsis; background: $surface; }
    ChangeBrowser > .review--risk { height: auto; max-height: 2; padding: 0 1; color: $text-error; }
    ChangeBrowser > .review--risk { background: $error-muted; }
    ChangeBrowser > .review--risk.-label { color: $text-warning; background: $surface; }
    ChangeBrowser > .review--conflict { height: auto; max-height: 6; padding: 0 1; }
    ChangeBrowser > .review--conflict { color: $text-warning; background: $warning-muted; }
    ChangeBrowser > HunkEditor, ChangeBrowser > HunkEditor:focus { border: none; padding: 0; }
    ChangeBrowser > HunkEditor { height: auto; max-height: 75%; }
    ChangeBrowser > EditorContext { height: 1fr; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, load: LoadLines, sent_verdicts: SentVerdicts, *, clock: Callable[[], float]) -> None:
        super().__init__()
        self._sent, self._clock = sent_verdicts, clock
        self.changes: tuple[Change, ...] = ()
        self.bulks: tuple[Bulk, ...] = ()
        self.comments: Mapping[tuple[str, str], Comment] = {}
        self._diagnostics: DiagnosticReports = NO_REPORTS
        self._origin_names: tuple[Mapping[str, int], Mapping[str, str]] = ({}, {})
        self._judged: Sequence[VerdictRecord] = ()
        self._can_commit, self._empty_text = False, EMPTY
        self._intents: Mapping[str, str] = {}
        self.proof = ReviewProof()
        self.index = 0
        self._pages = PageSet()
        self._frame = ReviewFrame()
        self.is_list_shown = False
        self.attention = PaneAttention(GRACE, clock)
        self._explanation = ""  # of a key that did nothing
        self.loader = PageLoader(load, missing_text=NOTHING_PENDING, on_loaded=self._note_loaded)

    def compose(self) -> ComposeResult:
        yield self._frame.above
        change_list = ChangeList(clock=self._clock)
        change_list.display = False
        yield change_list
        yield DiffView(clock=self._clock)
        yield from self._frame.below

    def on_mount(self) -> None:
        self._show_pages("first")

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

    def set_review(
        self,
        verdict_records: Sequence[VerdictRecord],
        intents: Mapping[str, str],
        *,
        can_commit: bool = False,
        accepts_at_once: bool = False,
    ) -> None:
        """Set the verdicts of this review, the intent of each path, and the possibility to commit; `set_changes`
        follows. `accepts_at_once`: most changes are written without a review."""
        self._judged, self._intents, self._can_commit = verdict_records, intents, can_commit
        self._empty_text = EMPTY_AT_ONCE if accepts_at_once else EMPTY

    def set_changes(self, changes: tuple[Change, ...], *, before_undo: frozenset[str] | None = None) -> bool:
        """Set the pending changes and keep the cursor. Return True if it moved to the first hunk that is not in
        `before_undo`."""
        path = self._get_path()
        if changes and not self.changes:
            self.start_grace()
        known_changes = {change.path: change for change in self.changes}
        self.changes = changes
        unchanged_paths = [change.path for change in changes if change == known_changes.get(change.path)]
        conflicting = self._sent.forget_answered(changes, unchanged_paths)
        paths = [change.path for change in changes]
        is_present = path in paths
        self.index = paths.index(path) if is_present else max(min(self.index, len(paths) - 1), 0)
        if self.is_mounted:
            self._show_pages("keep" if is_present else "first")
        if before_undo is not None and self._select_restored_hunk(before_undo):
            return True
        self.return_to_hunk(conflicting)
        return False

    def _select_restored_hunk(self, before_undo: frozenset[str]) -> bool:
        for index, change in enumerate(self.changes if self.is_mounted else ()):
            for number, hunk in enumerate(change.hunks):
                if hunk.id not in before_undo:
                    self._pages[change.path].goal = hunk.id
                    self._go_to_file(index, number)
                    return True
        return False

    def return_to_hunk(self, target: tuple[str, str]) -> bool:
        """Move the cursor back to a hunk whose verdict failed."""
        for index, change in enumerate(self.changes if self.is_mounted else ()):
            if change.path == target[0] and not self.is_list_shown:
                ids = [hunk.id for hunk in change.hunks]
                self._go_to_file(index, ids.index(target[1]) if target[1] in ids else "first")
                return True
        return False

    def show_file(self, path: str) -> None:
        for index, change in enumerate(self.changes):
            if change.path == path and index != self.index:
                self._go_to_file(index, "first")

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
        """Restart the grace period, because something covers the pane."""
        self.start_grace()
        for row_view in self.query(RowView):
            row_view.visibility.clear()
            row_view.redraw()

    on_hide = restart_grace

    def on_descendant_focus(self) -> None:
        self.attention.note_focus(self.has_focus_within)

    on_descendant_blur = on_descendant_focus

    def explain(self, text: str) -> None:
        """Say why a key does nothing, in the place of the verdict: at the current hunk, else above the list; "" = it
        did something."""
        text = insert_keys(text, get_keymap(self.app))
        if text != self._explanation:
            self._explanation = self.diff_view.painter.explanation = text
            self.diff_view.redraw()
            self._frame.show_progress(self._describe_progress())

    def is_too_early(self, *, by_mouse: bool = False) -> bool:
        """True if the key or click was meant for earlier content; of a key this says so: a click needs the buttons."""
        is_early = self.attention.is_too_early(get_seconds_since_struck(self), by_mouse=by_mouse)
        if is_early and not by_mouse:
            self.explain(NOT_YET)
        return is_early

    def is_unseen(self, *, by_mouse: bool = False) -> bool:
        """True if the target of a verdict was not visible long enough; it is scrolled into view, and this says so."""
        ago = get_seconds_since_struck(self)
        diff, hunk_index = self.get_diff(), self.diff_view.current
        if by_mouse and diff is not None and hunk_index >= 0:
            buttons = build_buttons_target(diff, hunk_index)
            return not self.diff_view.visibility.is_visible_for(buttons, at_least=GRACE, since_struck=ago)
        target: Hashable = (
            (diff.change.path, diff.change.hunks[hunk_index].id) if diff is not None and hunk_index >= 0 else None
        )
        if self.is_list_shown:
            row = self.change_list.current_row
            target = self.change_list.get_target(row) if row is not None else None
        view = self.change_list if self.is_list_shown else self.diff_view
        required_seconds = self.attention.seconds_needed
        if target is None or view.visibility.is_visible_for(target, at_least=required_seconds, since_struck=ago):
            return False
        view.reveal_current()
        self.explain(REVEALED)
        return True

    def list_seen(self, change: Change) -> frozenset[str]:
        """Return the ids of the hunks of a change that have been in view to their end."""
        visibility, ago = self.diff_view.visibility, get_seconds_since_struck(self)
        ends = {hunk.id: build_end_target(change.path, hunk.id) for hunk in change.hunks}
        return frozenset(
            id_ for id_, end in ends.items() if visibility.was_visible_for(end, at_least=GRACE, since_struck=ago)
        )

    def find_judgeable_hunk(self) -> tuple[str, Hunk] | None:
        """Return path and hunk under the cursor if it is pending and has been seen; else say why not."""
        diff, hunk_index = self.get_diff(), self.diff_view.current
        if diff is None or hunk_index < 0 or self.is_list_shown:
            if self.changes:
                self.explain(IN_LIST if self.is_list_shown else NOT_LOADED)
            return None
        if self.is_sent(hunk_index):
            self.explain(ANSWERED)
            return None
        return None if self.is_too_early() or self.is_unseen() else (diff.change.path, diff.change.hunks[hunk_index])

    @property
    def pending_hunk(self) -> Hunk | None:
        """The hunk under the cursor if it waits for a verdict."""
        diff, index = self.get_diff(), self.diff_view.current
        is_waiting = diff is not None and index >= 0 and not self.is_list_shown and not self.is_sent(index)
        return diff.change.hunks[index] if diff is not None and is_waiting else None

    @property
    def diff_view(self) -> DiffView:
        return self.query_one(DiffView)

    @property
    def has_long_lines(self) -> bool:
        return self.is_mounted and not self.is_list_shown and self.diff_view.has_long_lines

    @property
    def change_list(self) -> ChangeList:
        return self.query_one(ChangeList)

    @property
    def is_filtered(self) -> bool:
        """True if the list leaves out some of what is pending."""
        return any(change_list.is_filtered for change_list in self.query(ChangeList))

    @property
    def is_settled(self) -> bool:
        """True if no change or bulk is pending."""
        return not measure_progress(self.changes, self.bulks, self._judged).waiting

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
        """Return the lines of the current file, None as long as they are not loaded."""
        page = self.diff_view.page if self.is_mounted else None
        return page.diff if page is not None and page.path == self._get_path() and not page.problem else None

    def is_sent(self, hunk: int) -> bool:
        page = self.diff_view.page
        is_in_range = 0 <= hunk < len(page.hunks) if page is not None else False
        return page is not None and is_in_range and page.hunks[hunk].id in self._sent.get_hunks(page.path)

    def render_header(self) -> None:
        self._frame.show_progress(self._describe_progress())
        self._show_foot()
        stale, is_changed = self._pages.annotate(self.comments, self._diagnostics, self._sent, self.proof.by_file)
        if stale:
            self.diff_view.lay_out_again(stale)
        elif is_changed:
            self.diff_view.redraw()
        if self.is_list_shown:
            self._render_list()

    @on(messages.RowSelected)
    def _show_foot(self) -> None:
        """Show the origin of the current file and its problem; in the list, what is known of the current hunk."""
        change = self.changes[self.index] if self.changes and not self.is_list_shown else None
        origin = self._describe_origin(change)
        if (place := self.current_place) is not None and self.is_list_shown and place in self.proof.judgements:
            room = (self.size.width or UNKNOWN_WIDTH) - 2
            origin = [(" ", ""), *describe_judgement(self.proof.judgements[place], room, is_current=True)]
        self._frame.show_change(change, origin, self._describe_problem(change))

    def _render_list(self) -> None:
        hunks = {(path, hunk) for path, verdicts in self._sent.hunks.items() for hunk in verdicts}
        self.change_list.set_proof(self.proof, self._intents)
        self.change_list.show(
            self.changes, self.bulks, {*hunks, *self._sent.hunks, *self._sent.bulks}, self._diagnostics
        )

    def show_proving(self, proving: ProofProgressed | None) -> None:
        """Show how far the proof is that runs now, None = none does."""
        progress = (proving.finished, proving.total) if proving is not None else None
        if progress != self.proof.progress:
            self.proof.progress = progress
            self._frame.show_progress(self._describe_progress())

    def _describe_problem(self, change: Change | None) -> str:
        """Return why the change can't be accepted, or why its verdict failed; in the list, that of the latest
        refusal."""
        refusals, keymap = self._sent.refused, get_keymap(self.app)
        if not self.is_list_shown or not refusals:
            return describe_problem(change, refusals.get(change.path), keymap) if change else ""
        path, reason = next(reversed(refusals.items()))
        refused_change = next((candidate for candidate in self.changes if candidate.path == path), None)
        text = describe_problem(refused_change, reason, keymap) if refused_change else f"! Not done: {reason}"
        return f"! {format_path(path, 60)}: {text.removeprefix('! ')}"

    def _describe_progress(self) -> list[Part]:
        keymap = get_keymap(self.app)
        waiting = describe_waiting(() if self.is_list_shown else self.bulks, len(self.comments), keymap)
        proof, width = self.proof, self.size.width or UNKNOWN_WIDTH
        progress = proof.describe_progress(is_brief=self.is_list_shown and width < TWO_NUMBERS_WIDTH)
        running: list[Part] = [(f" {progress} ", "$text-primary")] if progress else []
        if self._explanation and (self.is_list_shown or self.diff_view.current < 0):
            return [(f" {self._explanation} ", "$text-warning")]
        if self.is_list_shown:
            return [*running, *waiting, *self._describe_list()]
        if not self.changes:
            return waiting
        look_at = proof.summary.look_at
        marks: list[Part] = [(f" {look_at:,} to look at ", "$text-warning")] if look_at else []
        marks += [(f" / {fit_line(self.change_list.pattern, 20)} ", "$text-primary")] if self.is_filtered else []
        room = width - measure_pieces([*waiting, *running, *marks])
        return [*draw_meter(measure_progress(self.changes, self.bulks, self._judged), room), *marks, *running, *waiting]

    def _describe_list(self) -> list[Part]:
        change_list, counts = self.change_list, self.proof.describe_counts()
        if change_list.only is not None:
            total = sum(len(change.hunks) for change in self.changes)
            return [(f" {NEWS_TITLE}: {len(change_list.only):,} of {count('hunk', total)}", "bold $text-primary")]
        if change_list.pattern:
            return self._describe_filter()
        if change_list.arrangement == "hunks" and counts:
            return [*counts]
        return describe_list(self.changes, self.bulks)

    def _describe_filter(self) -> list[Part]:
        """Describe how much of what is pending the words leave in the list."""
        change_list = self.change_list
        words: Part = (f"  / {fit_line(change_list.pattern, 40)}", "$text-primary")
        listed_changes = change_list.list_shown()
        if change_list.arrangement == "hunks":
            number, total = (
                sum(len(ids) for _, ids in listed_changes),
                sum(len(change.hunks) for change in self.changes),
            )
            return [(f" {number:,} of {count('hunk', total)}", "bold"), words]
        return [(f" {len(listed_changes):,} of {count('file', len(self.changes))}", "bold"), words]

    def _describe_origin(self, change: Change | None) -> list[Part]:
        room = self.size.width or UNKNOWN_WIDTH
        return describe_change(change, *self._origin_names, room) if change is not None else []

    async def load_around(self, hunk: HunkAnswer) -> tuple[list[NumberedLine], list[NumberedLine]]:
        """Return the lines above and below a hunk, as many as fit the pane; none if the change is gone."""
        try:
            diff = await self.loader.load(hunk.path, self.size.height)
        except AgentTuiError:  # the lines around an edited text are only for orientation
            diff = None
        ids = [candidate.id for candidate in diff.change.hunks] if diff is not None else []
        if diff is None or hunk.hunk not in ids:
            return [], []
        return find_context(clean_lines(diff), ids.index(hunk.hunk))

    # Pages

    def _show_pages(self, goal: Goal) -> None:
        """Show all files, grouped by intent, with judged hunks folded to a row."""
        if not self.changes:
            self.change_list.set_only(None)
            self.change_list.set_filter("")
            self._pages.clear()
            summary = describe_settled(measure_progress((), self.bulks, self._judged), can_commit=self._can_commit)
            text, hints = summary or self._empty_text, [UNDO_HINT]
            if self._can_commit:
                text, hints = summary or self._empty_text + COMMITTABLE, [UNDO_HINT, COMMIT_HINT]
            self.diff_view.show_message(insert_keys(text, get_keymap(self.app)), hints=hints)
            self.show_list(any(bulk.needs_verdict or not summary for bulk in self.bulks))
            return
        folded_hunks = fold_judged(self._judged, get_keymap(self.app))
        pages = self._pages.arrange(self.changes, folded_hunks, self._intents)
        should_keep = goal == "keep"
        self.diff_view.show_pages(pages, pages.index(self._pages[self._get_path()]), None if should_keep else 0)
        self.render_header()
        self.loader.start(self.diff_view)
        if not should_keep and self.is_sent(self.diff_view.current):
            self.go_to_next_unsent()

    @on(DiffView.LinesRequested)
    def _load_wanted(self, event: DiffView.LinesRequested) -> None:
        event.stop()
        self.loader.start(self.diff_view)

    def _note_loaded(self, page: DiffPage) -> None:
        if page.path == self._get_path() and self.diff_view.page is page and self.is_sent(self.diff_view.current):
            self.go_to_next_unsent()

    @on(DiffView.CursorMoved)
    def _follow_cursor(self, event: DiffView.CursorMoved) -> None:
        event.stop()
        self.index = next((index for index, change in enumerate(self.changes) if change.path == event.path), self.index)
        self.attention.note_moved(by_hand=False)
        self.render_header()

    def show_list(self, is_shown: bool) -> None:
        """Show the list, in an order that stays while it is shown, or the lines."""
        had_focus = self.diff_view.has_focus or self.change_list.has_focus
        place = self.current_place
        self.is_list_shown = is_shown
        self.change_list.display, self.diff_view.display = is_shown, not is_shown
        if is_shown:
            self.change_list.set_proof(self.proof, self._intents)
            self.change_list.order_hunks(self.changes)
        else:
            self.change_list.set_only(None)
        self.render_header()
        if is_shown:
            self.change_list.select_change(self.index, place[1] if place is not None else "")
        if had_focus:
            self.focus()

    def switch_arrangement(self) -> None:
        """List files instead of hunks, or hunks instead of files; opens the list."""
        if not self.changes:
            return
        if self.is_list_shown:
            self.change_list.set_only(None)
            self.change_list.switch_arrangement()
        self.show_list(True)

    def show_only(self, places: Collection[HunkPlace] | None) -> None:
        """List these hunks alone; None = all again."""
        self.change_list.set_only(places)
        if places is None:
            self.render_header()
        else:
            self.show_list(True)

    @property
    def current_place(self) -> HunkPlace | None:
        """The path and the id of the hunk under the cursor, in the list as well; None = it is on no hunk."""
        if self.is_list_shown:
            row = self.change_list.current_row
            return row.hunks[0] if row is not None and row.kind == "hunk" else None
        page, current = self.diff_view.page if self.is_mounted else None, self.diff_view.current
        if page is None or page.change is None or not 0 <= current < len(page.hunks):
            return None
        return page.path, page.hunks[current].id

    def toggle_list(self) -> None:
        if self.changes or self.bulks:
            self.show_list(not self.is_list_shown or not self.changes)

    def set_filter(self, pattern: str) -> None:
        self.change_list.set_filter(pattern)
        self.render_header()
        self.post_message(HintsChanged())

    @on(messages.ChangeOpened)
    def _on_change_opened(self, event: messages.ChangeOpened) -> None:
        event.stop()
        if self.is_list_shown:
            self.show_list(False)
        if event.index < len(self.changes):
            change = self.changes[event.index]
            ids = [hunk.id for hunk in change.hunks]
            page = self._pages[change.path]
            page.goal = event.hunk if page.is_unloaded else page.goal
            self._go_to_file(event.index, ids.index(event.hunk) if event.hunk in ids else "first")
        self.focus()

    def move_hunk(self, step: int) -> None:
        """Move to the next or previous hunk, across files; in the list: to the next row."""
        page, target = self.diff_view.page, self.diff_view.current + step
        if self.is_list_shown or page is None or not 0 <= target < len(page.hunks):
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
        elif self.changes:
            self.explain(AT_END[step > 0])

    def _go_to_file(self, index: int, goal: Goal) -> None:
        self.index = index
        places = {"first": 0, "last": -1, "keep": self.diff_view.current}
        page_index = self.diff_view.pages.index(self._pages[self._get_path()])
        self.diff_view.select_hunk(goal if isinstance(goal, int) else places[goal], page_index)
        self.render_header()
        self.loader.start(self.diff_view)

    def go_to_next_unsent(self) -> None:
        """Move to the next hunk without a verdict: after this one, before it, or in the next such file."""
        page, current = self.diff_view.page, max(self.diff_view.current, 0)
        if page is not None:
            count = len(page.hunks)
            open_hunks = [
                hunk_index for hunk_index in (*range(current, count), *range(current)) if not self.is_sent(hunk_index)
            ]
            if open_hunks:
                self.diff_view.select_hunk(open_hunks[0])
                return
        count = len(self.changes)
        for index in (*range(self.index + 1, count), *range(self.index)):
            if unsent := self._sent.list_unsent(self.changes[index]):
                ids = [hunk.id for hunk in self.changes[index].hunks]
                self._go_to_file(index, ids.index(unsent[0]))
                return

    def toggle_columns(self) -> None:
        wants = not self.diff_view.is_split
        self.diff_view.set_split(wants)
        self.post_message(messages.WidthRequested(SPLIT_WIDTH + 1 if wants else 0))
