"""The review: pending changes, file by file and hunk by hunk, judged from the keyboard.

A verdict names hunks by the ids of the diff that is on screen, never of one that has not been seen: if the change moved
on meanwhile, the engine refuses the id and nothing is lost. Verdict keys sleep for a moment after the pane appears.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Final, Literal, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from core.protocol.review import Change, ChangeDiff, Verdict
from tui.keymap import bindings
from tui.text import clean, plain
from tui.widgets.diff_view import DiffView
from tui.widgets.review_files import ReviewFiles

GRACE: Final = 0.5  # seconds
ANSWERED_WITHIN: Final = 3.0  # seconds after which a verdict that nothing came of can be given again
PATIENCE: Final = 0.5

EMPTY: Final = (
    "Nothing to review\n\n"
    "What the agent changes waits here, hunk by hunk. Your files stay as they are until you accept: "
    "a accepts, r rejects, u takes a verdict back."
)
GONE: Final = "Nothing is pending here any more\n\nIt was settled meanwhile. ] and [ go to the other files."
CONFLICT_ADVICE: Final = (
    "Your file is untouched. Open it with o; reject with r to keep your version, or say why with c so that the agent "
    "makes its edit again on top of yours."
)

Goal = Literal["first", "last", "keep"] | int


class ReasonInput(Input):
    """One line in which the user says why a hunk is rejected."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("reason")

    @dataclass
    class Cancelled(Message):
        """The user changed their mind."""

    def action_cancel(self) -> None:
        self.post_message(self.Cancelled())


class ReviewPane(Vertical):
    """`load(path)` gives a change with its lines, or None when nothing is pending there any more."""

    DEFAULT_CSS = """
    ReviewPane { width: 1fr; height: 1fr; background: $background; }
    ReviewPane > .review--conflict { height: auto; max-height: 4; padding: 0 1; }
    ReviewPane > .review--conflict { color: $text-warning; background: $warning-muted; }
    ReviewPane > ReasonInput { height: 1; border: none; padding: 0 1; background: $error-muted; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("review")

    @dataclass
    class Resolve(Message):
        """A verdict on some hunks of one file."""

        path: str
        hunks: tuple[str, ...]
        verdict: Verdict
        reason: str = ""

    @dataclass
    class Undo(Message):
        """The last verdict is to be taken back."""

    @dataclass
    class OpenFile(Message):
        """The file is to be shown at a line (1-indexed)."""

        path: str
        line: int

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
        self._index = 0
        self._awake_at = 0.0
        self._sent: dict[str, dict[str, Verdict]] = {}
        self._reason_for: tuple[str, tuple[str, ...]] = ("", ())
        self._slow: Timer | None = None
        self._sent_at = 0.0
        self._before_undo: frozenset[str] | None = None

    def compose(self) -> ComposeResult:
        yield ReviewFiles()
        conflict = Static(classes="review--conflict")
        conflict.display = False
        yield conflict
        yield DiffView()
        reason = ReasonInput(placeholder="Why? Enter rejects and tells the model, Escape goes back", compact=True)
        reason.display = False
        reason.cursor_blink = False  # a blinking cursor writes to the terminal while nothing happens
        yield reason

    def on_mount(self) -> None:
        self._show_file("first")

    # What the screen tells

    def set_changes(self, changes: tuple[Change, ...]) -> None:
        """The changes that are pending now. The cursor stays where it is as far as that still exists."""
        path, loaded = self._path(), self._shown()
        if changes and not self._changes:
            self.arm()
        self._changes = changes
        self._forget_settled()
        if self._show_what_came_back():
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

    def _show_what_came_back(self) -> bool:
        """After an undo: go to the first hunk that was not there before it."""
        before = self._before_undo
        for index, change in enumerate(self._changes if before is not None and self.is_mounted else ()):
            for number, hunk in enumerate(change.hunks):
                if hunk.id not in (before or ()):
                    self._before_undo = None
                    self._go(index, number)
                    return True
        return False

    def arm(self) -> None:
        """The pane has just appeared: verdict keys are ignored for half a second."""
        self._awake_at = self._clock() + GRACE

    def restore(self, path: str = "") -> None:
        """The engine refused a verdict on this file ("" = on any): its hunks can be judged again."""
        for each in [path] if path else list(self._sent):
            self._sent.pop(each, None)
        self._view.mark_sent(self._sent.get(self._path(), {}))

    def show_path(self, path: str) -> None:
        """Go to a changed file."""
        for index, change in enumerate(self._changes):
            if change.path == path and index != self._index:
                self._index = index
                self._show_file("first")

    def focus(self, scroll_visible: bool = True) -> ReviewPane:
        if self.query(DiffView):
            self._view.focus(scroll_visible)
        else:  # a key may come while the pane is still being put together
            self.call_later(self.focus, scroll_visible)
        return self

    # What is shown

    @property
    def _view(self) -> DiffView:
        return self.query_one(DiffView)

    def _path(self) -> str:
        return self._changes[self._index].path if self._changes else ""

    def _shown(self) -> ChangeDiff | None:
        """The diff on screen, if it belongs to the current file."""
        diff = self._view.diff if self.is_mounted else None
        return diff if diff is not None and diff.change.path == self._path() else None

    def _forget_settled(self) -> None:
        """A verdict is no longer under way when its hunk is gone, or when it can't be carried out."""
        hunks = {change.path: {hunk.id for hunk in change.hunks} for change in self._changes if not change.conflict}
        sent = {path: {i: v for i, v in each.items() if i in hunks.get(path, ())} for path, each in self._sent.items()}
        self._sent = {path: each for path, each in sent.items() if each}

    def _show_header(self) -> None:
        self.query_one(ReviewFiles).show(self._changes, self._index, frozenset(self._sent))
        conflict = self._changes[self._index].conflict if self._changes else ""
        warning = self.query_one(".review--conflict", Static)
        warning.display = bool(conflict)
        if conflict:
            warning.update(plain(f"! Conflict: {conflict.strip()} {CONFLICT_ADVICE}"))
        self._view.mark_sent(self._sent.get(self._path(), {}))

    def _show_file(self, goal: Goal) -> None:
        self._show_header()
        if not self._changes:
            self.workers.cancel_group(self, "review.load")
            self._stop_waiting()
            self._view.show_text(EMPTY)
            return
        if self._slow is None:
            self._slow = self.set_timer(PATIENCE, self._show_progress)
        fetch = self._fetch(self._path(), goal)
        self.run_worker(fetch, name="review.load", group="review.load", exclusive=True, exit_on_error=False)

    async def _fetch(self, path: str, goal: Goal) -> None:
        diff = await self._load(path)
        self._stop_waiting()
        if path != self._path():
            return
        if diff is None:
            self._view.show_text(GONE)
            return
        last = len(diff.change.hunks) - 1
        places = {"first": 0, "last": last, "keep": None}
        self._view.show(diff, min(goal, last) if isinstance(goal, int) else places[goal])
        if goal == "first" and self._is_sent(self._view.current):
            self._advance()

    def _stop_waiting(self) -> None:
        if self._slow is not None:
            self._slow.stop()
            self._slow = None

    def _show_progress(self) -> None:
        if self._slow is not None and self._shown() is None:
            self._view.show_text("Reading the change…")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.name == "review.load" and event.state is WorkerState.ERROR:
            self._stop_waiting()
            self._view.show_text(f"The change can't be shown\n\n{clean(str(event.worker.error))}")

    # Moving

    def action_hunk(self, step: int) -> None:
        view, diff = self._view, self._shown()
        target = view.current + step
        if diff is not None and 0 <= target < len(diff.change.hunks):
            view.select(target)
        elif 0 <= self._index + step < len(self._changes):
            self._go(self._index + step, "first" if step > 0 else "last")

    def action_file(self, step: int) -> None:
        if 0 <= self._index + step < len(self._changes):
            self._go(self._index + step, "first")

    def _go(self, index: int, goal: Goal) -> None:
        self._index = index
        self._show_file(goal)

    def action_split(self) -> None:
        self._view.toggle_split()

    def action_open(self) -> None:
        if self._changes:
            diff = self._shown()
            hunk = diff.change.hunks[self._view.current] if diff is not None and self._view.current >= 0 else None
            self.post_message(self.OpenFile(self._path(), max(hunk.new_start, 1) if hunk else 1))

    @on(DiffView.HunkChosen)
    def _choose_hunk(self, event: DiffView.HunkChosen) -> None:
        event.stop()
        self._view.select(event.index)

    @on(ReviewFiles.Chosen)
    def _choose_file(self, event: ReviewFiles.Chosen) -> None:
        event.stop()
        if event.index < len(self._changes):
            self._go(event.index, "first")
        self.focus()

    # Judging

    def _is_asleep(self) -> bool:
        return self._clock() < self._awake_at

    def _is_sent(self, hunk: int) -> bool:
        diff = self._shown()
        return diff is not None and hunk >= 0 and diff.change.hunks[hunk].id in self._sent.get(self._path(), {})

    def _forget_unanswered(self) -> None:
        if self._sent and self._clock() - self._sent_at > ANSWERED_WITHIN:
            self.restore()

    def action_resolve_hunk(self, verdict: str) -> None:
        self._forget_unanswered()
        diff, current = self._shown(), self._view.current
        if diff is not None and current >= 0 and not self._is_asleep() and not self._is_sent(current):
            self._judge(diff.change.path, (diff.change.hunks[current].id,), cast("Verdict", verdict))

    def action_resolve_file(self, verdict: str) -> None:
        self._forget_unanswered()
        diff = self._shown()
        if diff is None or self._is_asleep():
            return
        sent = self._sent.get(diff.change.path, {})
        ids = tuple(hunk.id for hunk in diff.change.hunks if hunk.id not in sent)
        if ids:
            self._judge(diff.change.path, ids, cast("Verdict", verdict))

    @on(DiffView.Judged)
    def _judge_by_mouse(self, event: DiffView.Judged) -> None:
        event.stop()
        self.action_resolve_hunk(event.verdict)

    def _judge(self, path: str, ids: tuple[str, ...], verdict: Verdict, reason: str = "") -> None:
        self._before_undo = None
        self._sent.setdefault(path, {}).update(dict.fromkeys(ids, verdict))
        self._sent_at = self._clock()
        self.post_message(self.Resolve(path, ids, verdict, reason))
        self._show_header()
        self._advance()

    def _advance(self) -> None:
        """To the next hunk without a verdict: after this one, else before it, else in the next file that has one."""
        diff, current = self._shown(), self._view.current
        if diff is not None:
            count = len(diff.change.hunks)
            open_hunks = [each for each in (*range(current, count), *range(current)) if not self._is_sent(each)]
            if open_hunks:
                self._view.select(open_hunks[0])
                return
        count = len(self._changes)
        for index in (*range(self._index + 1, count), *range(self._index)):
            change = self._changes[index]
            if not {hunk.id for hunk in change.hunks} <= self._sent.get(change.path, {}).keys():
                self._go(index, "first")
                return

    def action_undo(self) -> None:
        if self._is_asleep():
            return
        self.restore()
        self._before_undo = frozenset(hunk.id for change in self._changes for hunk in change.hunks)
        self.post_message(self.Undo())

    def action_reason(self) -> None:
        diff, current = self._shown(), self._view.current
        if diff is None or current < 0 or self._is_asleep() or self._is_sent(current):
            return
        self._reason_for = (diff.change.path, (diff.change.hunks[current].id,))
        reason = self.query_one(ReasonInput)
        reason.value = ""
        reason.display = True
        reason.focus()

    @on(Input.Submitted)
    def _reject_with_reason(self, event: Input.Submitted) -> None:
        event.stop()
        path, ids = self._reason_for
        self._close_reason()
        self._judge(path, ids, "reject", event.value.strip())

    @on(ReasonInput.Cancelled)
    def _close_reason(self) -> None:
        self.query_one(ReasonInput).display = False
        self.focus()
