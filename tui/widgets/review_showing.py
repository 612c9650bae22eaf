"""What the review shows: a change with its lines, where it came from, and all that waits as a list.

The cursor stays where it is while changes come and go. Nothing here gives a verdict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from core.protocol.review import Bulk, Change, ChangeDiff, Comment, Verdict
from tui.sight import Attention
from tui.text import clean, named, one_line, plain
from tui.widgets.code_view import CodeView, cells
from tui.widgets.diff_view import SPLIT_WIDTH, DiffView
from tui.widgets.review_files import ReviewFiles
from tui.widgets.review_input import ReviewInput
from tui.widgets.review_list import ReviewList
from tui.widgets.review_words import EMPTY, GONE, Part, risk, told, trouble
from tui.work import begin

PATIENCE: Final = 0.5
GRACE: Final = 0.5  # seconds
PLENTY: Final = 1_000  # columns, as long as the width is not known

Goal = Literal["first", "last", "keep"] | int


class ShowingReview(Vertical):
    """`load(path)` gives a change with its lines, or None when nothing is pending there any more."""

    @dataclass
    class WantsRoom(Message, namespace="review_pane"):
        """What is shown needs so many columns; 0 = no more than the pane has by itself."""

        width: int

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
        self._names: tuple[Mapping[str, int], Mapping[str, str]] = ({}, {})
        self._index = 0
        self.attention = Attention(GRACE, self.now)
        self._sent: dict[str, dict[str, Verdict]] = {}
        self._sent_bulks: set[str] = set()
        self._refused: dict[str, str] = {}
        self._slow: Timer | None = None
        self._before_undo: frozenset[str] | None = None
        self._lists = False

    def now(self) -> float:
        return self._clock()

    def compose(self) -> ComposeResult:
        yield ReviewFiles()
        for name in ("review--origin", "review--risk", "review--conflict"):
            line = Static(classes=name)
            line.display = False
            yield line
        listed = ReviewList(clock=self.now)
        listed.display = False
        yield listed
        yield DiffView(clock=self.now)
        asked = ReviewInput(compact=True)
        asked.display = False
        asked.cursor_blink = False  # a blinking cursor writes to the terminal while nothing happens
        yield asked

    def on_mount(self) -> None:
        self._show_file("first")

    def on_resize(self) -> None:
        self._show_header()

    # What the screen tells

    def set_around(
        self,
        bulks: tuple[Bulk, ...],
        comments: Mapping[tuple[str, str], Comment],
        turns: Mapping[str, int],
        todos: Mapping[str, str],
    ) -> None:
        """What stands beside the changes; to be followed by them. `turns` by number, `todos` by what they say."""
        if bulks and not self._bulks and not self._changes:
            self.arm()
        self._bulks, self._comments, self._names = bulks, dict(comments), (turns, todos)
        self._sent_bulks &= {bulk.root for bulk in bulks}

    def set_changes(self, changes: tuple[Change, ...]) -> None:
        """The changes that are pending now. The cursor stays where it is as far as that still exists."""
        path, loaded = self._path(), self._shown()
        if changes and not self._changes:
            self.arm()
        known = {change.path: change for change in self._changes}
        self._changes = changes
        still = [each.path for each in changes if each == known.get(each.path)]
        self._refused = {path: why for path, why in self._refused.items() if path in still}
        refused = self._forget_settled()
        if self._show_what_came_back() or self._go_back(refused):
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

    def _go_back(self, refused: tuple[str, str]) -> bool:
        """To a hunk (of a path) that was judged, and that the cursor has left, when nothing comes of it."""
        for index, change in enumerate(self._changes if self.is_mounted else ()):
            if change.path == refused[0] and not self._lists:
                ids = [hunk.id for hunk in change.hunks]
                self._go(index, ids.index(refused[1]) if refused[1] in ids else "first")
                return True
        return False

    def arm(self) -> None:
        """The pane has just appeared: verdict keys are ignored for half a second."""
        self.attention.comes_up()

    def unseen(self) -> None:
        """Something stands over it: what was seen before does not count any more."""
        self.arm()
        for each in self.query(CodeView):
            each.sights.lost()
            each.redraw()

    on_hide = unseen

    def on_descendant_focus(self) -> None:
        self.attention.comes_here(self.has_focus_within)

    on_descendant_blur = on_descendant_focus

    def show_path(self, path: str) -> None:
        """Go to a changed file."""
        for index, change in enumerate(self._changes):
            if change.path == path and index != self._index:
                self._index = index
                self._show_file("first")

    def focus(self, scroll_visible: bool = True) -> ShowingReview:
        if self.query(DiffView):
            (self._list if self._lists else self._view).focus(scroll_visible)
        else:  # a key may come while the pane is still being put together
            self.call_later(self.focus, scroll_visible)
        return self

    # What is shown

    @property
    def _view(self) -> DiffView:
        return self.query_one(DiffView)

    @property
    def _list(self) -> ReviewList:
        return self.query_one(ReviewList)

    def _path(self) -> str:
        return self._changes[self._index].path if self._changes else ""

    def _shown(self) -> ChangeDiff | None:
        """The diff on screen, if it belongs to the current file."""
        diff = self._view.diff if self.is_mounted else None
        return diff if diff is not None and diff.change.path == self._path() else None

    def _forget_settled(self) -> tuple[str, str]:
        """A verdict is no longer under way when its hunk is gone, or when it can't be carried out. Path and hunk of one
        that turned out to be in conflict, else "" and ""."""
        hunks = {change.path: {hunk.id for hunk in change.hunks} for change in self._changes}
        clashing = {change.path: change for change in self._changes if change.conflict}
        sent = {path: {i: v for i, v in each.items() if i in hunks.get(path, ())} for path, each in self._sent.items()}
        refused = ("", "")
        for path, each in sent.items():
            if path in clashing and (
                wanted := [i for i, verdict in each.items() if verdict == "accept" and not clashing[path].is_clean(i)]
            ):
                refused, self._refused[path] = (path, wanted[0]), ""
                sent[path] = {i: verdict for i, verdict in each.items() if i not in wanted}
        self._sent = {path: each for path, each in sent.items() if each}
        return refused

    def _show_header(self) -> None:
        change = self._changes[self._index] if self._changes else None
        files = self.query_one(ReviewFiles)
        files.show(self._changes, self._index, frozenset(self._sent))
        files.display = change is not None and not self._lists
        self._show_origin(change)
        self._say("review--risk", risk(change) if change else "")
        self.query_one(".review--risk").set_class(change is not None and not change.protected, "-label")
        self._show_trouble(change)
        self._view.mark_sent(self._sent.get(self._path(), {}))
        said = {hunk: each.text for (path, hunk), each in self._comments.items() if change and path == change.path}
        self._view.mark_comments(said)
        if self._lists:
            self._list.show(self._changes, self._bulks, {*self._sent, *self._sent_bulks})

    def _show_trouble(self, change: Change | None) -> None:
        """Why this change can't be accepted, or what came of its verdict; in the list: of the last one refused."""
        if not self._lists or not self._refused:
            text = trouble(change, self._refused.get(change.path)) if change else ""
            self._say("review--conflict", text)
            return
        path, why = next(reversed(self._refused.items()))
        found = next((each for each in self._changes if each.path == path), None)
        text = trouble(found, why) if found else f"! Not done: {why}"
        self._say("review--conflict", f"! {named(path, 60)}: {text.removeprefix('! ')}", in_list=True)

    def _say(self, name: str, text: str, *, in_list: bool = False) -> None:
        line = self.query_one(f".{name}", Static)
        line.display = bool(text) and (in_list or not self._lists)
        if text:
            line.update(plain(text))

    def _show_origin(self, change: Change | None) -> None:
        """One line: where the change came from and whether it was checked; then what waits beside the hunks."""
        waits = []
        if self._bulks and not self._lists:
            waits.append(f"{len(self._bulks)} in bulk (l)")
        if self._comments:
            count = len(self._comments)
            waits.append(f"{count} comment{'s' if count > 1 else ''} (S sends)")
        parts: list[Part] = [(f" {' · '.join(waits)} ", "$text-warning")] if waits else []
        if self._lists:
            count, pattern = len(self._changes), one_line(self._list.pattern, 40)
            named = [f"{count:,} file{'' if count == 1 else 's'}"] if count else []
            named += [f"{len(self._bulks)} in bulk, judged as a whole"] if self._bulks else []
            parts.append((f" {' · '.join(named)}", "bold"))
            parts += [(f"  / {pattern}", "$text-primary")] if pattern else []
        elif change is not None:
            room = (self.size.width or PLENTY) - sum(cells(text) for text, _ in parts)
            parts += told(change, *self._names, room)
        line = self.query_one(".review--origin", Static)
        line.display = bool(parts)
        line.update(Content.assemble(*parts))

    def _show_file(self, goal: Goal) -> None:
        if not self._changes:
            self.workers.cancel_group(self, "review.load")
            self._stop_waiting()
            self._view.show_text(EMPTY, is_settled=True)
            self._show_list(bool(self._bulks))
            return
        self._show_header()
        if self._slow is None:
            self._slow = self.set_timer(PATIENCE, self._show_progress)
        path = self._path()

        async def fetch() -> None:
            await self._fetch(path, goal)

        _: Worker[None] = begin(self, fetch, group="review.load", exclusive=True, exit_on_error=False)

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

    # The list

    def _show_list(self, lists: bool) -> None:
        """The list in the place of the hunks, or the hunks again."""
        had_focus = self._view.has_focus or self._list.has_focus
        self._lists = lists
        self._list.display, self._view.display = lists, not lists
        self._show_header()
        if lists:
            self._list.find(self._index)
        if had_focus:
            self.focus()

    def action_toggle_list(self) -> None:
        """All that waits, or the hunks again."""
        if self._changes or self._bulks:
            self._show_list(not self._lists or not self._changes)  # bulks have no hunks

    def _set_filter(self, pattern: str) -> None:
        self._list.filter(pattern)
        self._show_header()

    @on(ReviewList.Opened)
    def _open_from_list(self, event: ReviewList.Opened) -> None:
        event.stop()
        self._show_list(False)
        if event.index < len(self._changes):
            self._go(event.index, "first")
        self.focus()

    # Moving

    def action_hunk(self, step: int) -> None:
        """The next hunk or the one before, in the next file if need be; in the list: the next row."""
        self.attention.goes_on(by_hand=True)
        if self._lists:
            self._list.move(step)
            return
        view, diff = self._view, self._shown()
        target = view.current + step
        if diff is not None and 0 <= target < len(diff.change.hunks):
            view.select(target)
        elif 0 <= self._index + step < len(self._changes):
            self._go(self._index + step, "first" if step > 0 else "last")

    def action_file(self, step: int) -> None:
        """The next file or the one before."""
        self.attention.goes_on(by_hand=True)
        if self._lists:
            self._list.move(step)
        elif 0 <= self._index + step < len(self._changes):
            self._go(self._index + step, "first")

    def _go(self, index: int, goal: Goal) -> None:
        self._index = index
        self._show_file(goal)

    def action_split(self) -> None:
        """One column or two; two ask for the room that they need."""
        wants = not self._view.is_split
        self._view.split(wants)
        self.post_message(self.WantsRoom(SPLIT_WIDTH + 1 if wants else 0))

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

    # What heirs know

    def _is_sent(self, hunk: int) -> bool:
        diff = self._shown()
        return diff is not None and hunk >= 0 and diff.change.hunks[hunk].id in self._sent.get(self._path(), {})

    def _advance(self) -> None:
        raise NotImplementedError
