"""Verdicts in the review: on a hunk, a file, a directory or a bulk; what is under way, and what comes after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, cast

from textual import on
from textual.message import Message

from core.protocol.review import Change, ChangeDiff, Verdict
from tui.sight import since_struck
from tui.widgets.diff_rows import chips
from tui.widgets.diff_view import DiffView
from tui.widgets.review_input import ReviewInput
from tui.widgets.review_list import ListRow
from tui.widgets.review_showing import GRACE, ShowingReview
from tui.widgets.review_words import asks_first

ANSWERED_WITHIN: Final = 3.0  # seconds after which a verdict that nothing came of can be given again


class JudgingReview(ShowingReview):
    """Knows which verdicts were sent; the engine's answer is the change itself."""

    @dataclass
    class Resolve(Message, namespace="review_pane"):
        """A verdict on some hunks of one file."""

        path: str
        hunks: tuple[str, ...]
        verdict: Verdict
        reason: str = ""

    @dataclass
    class ResolveFiles(Message, namespace="review_pane"):
        """A verdict on several files, whole."""

        paths: tuple[str, ...]
        verdict: Verdict

    @dataclass
    class ResolveBulk(Message, namespace="review_pane"):
        """A verdict on a bulk."""

        root: str
        verdict: Verdict

    @dataclass
    class Undo(Message, namespace="review_pane"):
        """The last verdict is to be taken back."""

    def __init__(
        self,
        load: Callable[[str], Awaitable[ChangeDiff | None]],
        *,
        clock: Callable[[], float] = monotonic,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(load, clock=clock, id=id)
        self._asked_for: tuple[str, tuple[str, ...]] = ("", ())
        self._sent_at = 0.0

    def restore(self, path: str = "", why: str = "") -> None:
        """The engine refused a verdict on this file or bulk ("" = on any): it can be judged again. `why` is shown."""
        for each in [path] if path else list(self._sent):
            self._sent.pop(each, None)
        self._sent_bulks -= {path} if path else self._sent_bulks.copy()
        if path and why:
            self._refused[path] = why
        self._show_header()

    def set_refused(self, refused: Mapping[str, str]) -> None:
        """What verdicts could not be carried out for, by file or bulk; the cursor goes back to what was judged here."""
        for path, why in refused.items():
            sent = self._sent.get(path, {})
            if sent or path in self._sent_bulks:
                self.restore(path, why)
                self._go_back((path, next(iter(sent), "")))

    def _is_blocked(self, change: Change, verdict: Verdict, hunk: str = "") -> bool:
        """Whether this hunk ("": all of the file) can't be accepted; then that is said where the cursor is."""
        if verdict != "accept" or (change.is_clean(hunk) if hunk else change.clean or not change.conflict):
            return False
        self._refused.pop(change.path, None)
        self._refused[change.path] = ""
        self._show_header()
        return True

    def _is_asleep(self, *, by_mouse: bool = False) -> bool:
        """Whether what was struck was meant for something that was here before."""
        return self.attention.is_asleep(since_struck(self), by_mouse=by_mouse)

    def _is_unseen(self, *, by_mouse: bool = False) -> bool:
        """Whether what a verdict would be about was not on screen long enough; it is brought there."""
        diff, at, ago = self._shown(), self._view.current, since_struck(self)
        thing: Hashable = (diff.change.path, diff.change.hunks[at].id) if diff is not None and at >= 0 else None
        if by_mouse and diff is not None and at >= 0:
            return not self._view.sights.has(chips(diff, at), at_least=GRACE, since_struck=ago)
        place = self._list if self._lists else self._view
        if self._lists:
            thing = self._list.meant(self._list.row) if self._list.row is not None else None
        if thing is None or place.sights.has(thing, at_least=self.attention.takes, since_struck=ago):
            return False
        place.reveal()
        return True

    def _forget_unanswered(self) -> None:
        if (self._sent or self._sent_bulks) and self._clock() - self._sent_at > ANSWERED_WITHIN:
            self.restore()

    def action_resolve_hunk(self, verdict: str) -> None:
        """Judge the hunk; in the list: the row."""
        if not self._is_asleep() and not self._is_unseen():
            self._resolve_here(cast("Verdict", verdict))

    def _resolve_here(self, verdict: Verdict) -> None:
        self._forget_unanswered()
        if self._lists:
            self._judge_row(verdict)
            return
        diff, current = self._shown(), self._view.current
        if diff is None or current < 0 or self._is_sent(current):
            return
        hunk = diff.change.hunks[current].id
        if not self._is_blocked(diff.change, verdict, hunk):
            self._judge(diff.change, (hunk,), verdict)

    def action_resolve_file(self, verdict: str) -> None:
        """Judge what is left of the file; in the list: the row."""
        if self._is_asleep() or self._is_unseen():
            return
        self._forget_unanswered()
        if self._lists:
            self._judge_row(cast("Verdict", verdict))
            return
        diff = self._shown()
        ids = self._takable(diff.change, cast("Verdict", verdict)) if diff is not None else ()
        if diff is not None and ids and not self._is_blocked(diff.change, cast("Verdict", verdict)):
            self._judge(diff.change, ids, cast("Verdict", verdict))

    def _left(self, change: Change) -> tuple[str, ...]:
        sent = self._sent.get(change.path, {})
        return tuple(hunk.id for hunk in change.hunks if hunk.id not in sent)

    def _takable(self, change: Change, verdict: Verdict) -> tuple[str, ...]:
        """What is left of a file, without what clashes if it is to be accepted."""
        return tuple(each for each in self._left(change) if verdict == "reject" or change.is_clean(each))

    def _judge_row(self, verdict: Verdict) -> None:
        row = self._list.row
        if row is None:
            return
        if row.kind == "file" and self._is_blocked(self._changes[row.members[0]], verdict):
            return
        self._before_undo, self._sent_at = None, self._clock()
        if row.kind == "bulk":
            if row.name not in self._sent_bulks:
                self._sent_bulks.add(row.name)
                self.post_message(self.ResolveBulk(row.name, verdict))
        else:
            self._judge_files(row, verdict)
        self._show_header()
        if row.kind == "file" and not (verdict == "accept" and asks_first(self._changes[row.members[0]])):
            self._list.move(1)

    def _judge_files(self, row: ListRow, verdict: Verdict) -> None:
        """All files of a row; what is red is never among several, and what is in conflict is not accepted."""
        several = row.kind == "directory"
        chosen = [self._changes[index] for index in row.members]
        chosen = [each for each in chosen if not (several and self._is_blocked(each, verdict))]
        left = [
            (each, ids) for each in chosen if (ids := self._takable(each, verdict)) and not (several and each.protected)
        ]
        for change, ids in left:
            self._sent.setdefault(change.path, {}).update(dict.fromkeys(ids, verdict))
        if several and left:
            self.post_message(self.ResolveFiles(tuple(change.path for change, _ in left), verdict))
        elif left:
            self.post_message(self.Resolve(left[0][0].path, left[0][1], verdict))
        if several and (red := sum(change.protected for change in chosen)):
            self.app.notify(f"{red} red: decide on each of them by itself.", markup=False)

    @on(DiffView.Judged)
    def _judge_by_mouse(self, event: DiffView.Judged) -> None:
        event.stop()
        if not self._is_asleep(by_mouse=True) and not self._is_unseen(by_mouse=True):
            self._resolve_here(event.verdict)

    def _judge(self, change: Change, ids: tuple[str, ...], verdict: Verdict, reason: str = "") -> None:
        """What is asked about once more stays on screen until that is decided."""
        path = change.path
        self._before_undo = None
        self.attention.goes_on(by_hand=False)
        self._refused.pop(path, None)
        self._sent.setdefault(path, {}).update(dict.fromkeys(ids, verdict))
        self._sent_at = self._clock()
        self.post_message(self.Resolve(path, ids, verdict, reason))
        self._show_header()
        if not (verdict == "accept" and asks_first(change)):
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
            if self._left(self._changes[index]):
                self._go(index, "first")
                return

    def action_undo(self) -> None:
        """Take back the last verdict."""
        if self._is_asleep():
            return
        self.restore()
        self._before_undo = frozenset(hunk.id for change in self._changes for hunk in change.hunks)
        self.post_message(self.Undo())

    def action_reason(self) -> None:
        """Reject the hunk and say why."""
        diff, current = self._shown(), self._view.current
        if diff is None or self._lists or current < 0 or self._is_asleep() or self._is_sent(current):
            return
        if self._is_unseen():
            return
        self._asked_for = (diff.change.path, (diff.change.hunks[current].id,))
        self.query_one(ReviewInput).ask("reason")
