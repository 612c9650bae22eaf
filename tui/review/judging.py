"""Verdicts in the review: on a hunk, a file, a directory or a bulk; which are under way, and what comes next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from time import monotonic
from typing import Final, cast

from textual import on

from core.protocol.review import Change, ChangeDiff, Verdict
from tui.input.visibility import get_seconds_since_struck
from tui.review import messages
from tui.review.change_list import ChangeRow
from tui.review.descriptions import needs_confirmation
from tui.review.diff_layout import build_buttons_target
from tui.review.diff_view import DiffView
from tui.review.input_line import ReviewInput
from tui.review.showing import GRACE, ReviewView

ANSWER_TIMEOUT: Final = 3.0  # seconds after which a verdict that nothing came of can be given again


class VerdictReview(ReviewView):
    """Tracks which verdicts were sent; the engine's answer is the changed list of changes."""

    def __init__(
        self,
        load: Callable[[str], Awaitable[ChangeDiff | None]],
        *,
        clock: Callable[[], float] = monotonic,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(load, clock=clock, id=id)
        self._input_target: tuple[str, tuple[str, ...]] = ("", ())
        self._sent_at = 0.0

    def reopen(self, path: str = "", why: str = "") -> None:
        """A verdict on `path` ("" = on any) was refused: it can be given again. `why` is shown."""
        for each in [path] if path else list(self._sent):
            self._sent.pop(each, None)
        self._sent_bulks -= {path} if path else self._sent_bulks.copy()
        if path and why:
            self._refused[path] = why
        self._show_header()

    def show_refused(self, refused: Mapping[str, str]) -> None:
        """Show why verdicts failed, by file or bulk; the cursor goes back to a hunk judged here."""
        for path, why in refused.items():
            sent = self._sent.get(path, {})
            if sent or path in self._sent_bulks:
                self.reopen(path, why)
                self._return_to_hunk((path, next(iter(sent), "")))

    def _is_blocked(self, change: Change, verdict: Verdict, hunk: str = "") -> bool:
        """True if the hunk ("" = the whole file) cannot be accepted; the reason is then shown."""
        if verdict != "accept" or (change.is_hunk_clean(hunk) if hunk else change.clean_hunks or not change.conflict):
            return False
        self._refused.pop(change.path, None)
        self._refused[change.path] = ""
        self._show_header()
        return True

    def _is_asleep(self, *, by_mouse: bool = False) -> bool:
        """True if the key was meant for something that was here before."""
        return self.attention.is_too_early(get_seconds_since_struck(self), by_mouse=by_mouse)

    def _is_unseen(self, *, by_mouse: bool = False) -> bool:
        """True if the target of a verdict was not visible long enough; it is scrolled into view."""
        diff, at, ago = self._get_current_diff(), self._view.current, get_seconds_since_struck(self)
        thing: Hashable = (diff.change.path, diff.change.hunks[at].id) if diff is not None and at >= 0 else None
        if by_mouse and diff is not None and at >= 0:
            return not self._view.visibility.is_visible_for(
                build_buttons_target(diff, at), at_least=GRACE, since_struck=ago
            )
        place = self._list if self._is_list_shown else self._view
        if self._is_list_shown:
            thing = self._list.get_target(self._list.current_row) if self._list.current_row is not None else None
        if thing is None or place.visibility.is_visible_for(
            thing, at_least=self.attention.seconds_needed, since_struck=ago
        ):
            return False
        place.reveal_current()
        return True

    def _reopen_unanswered(self) -> None:
        if (self._sent or self._sent_bulks) and self._clock() - self._sent_at > ANSWER_TIMEOUT:
            self.reopen()

    def action_resolve_hunk(self, verdict: str) -> None:
        """Give a verdict on the hunk; in the list: on the row."""
        if not self._is_asleep() and not self._is_unseen():
            self._resolve_current(cast("Verdict", verdict))

    def _resolve_current(self, verdict: Verdict) -> None:
        self._reopen_unanswered()
        if self._is_list_shown:
            self._resolve_row(verdict)
            return
        diff, current = self._get_current_diff(), self._view.current
        if diff is None or current < 0 or self._is_sent(current):
            return
        hunk = diff.change.hunks[current].id
        if not self._is_blocked(diff.change, verdict, hunk):
            self._send_verdict(diff.change, (hunk,), verdict)

    def action_resolve_file(self, verdict: str) -> None:
        """Give a verdict on the rest of the file; in the list: on the row."""
        if self._is_asleep() or self._is_unseen():
            return
        self._reopen_unanswered()
        if self._is_list_shown:
            self._resolve_row(cast("Verdict", verdict))
            return
        diff = self._get_current_diff()
        ids = self._list_resolvable(diff.change, cast("Verdict", verdict)) if diff is not None else ()
        if diff is not None and ids and not self._is_blocked(diff.change, cast("Verdict", verdict)):
            self._send_verdict(diff.change, ids, cast("Verdict", verdict))

    def _list_unsent(self, change: Change) -> tuple[str, ...]:
        sent = self._sent.get(change.path, {})
        return tuple(hunk.id for hunk in change.hunks if hunk.id not in sent)

    def _list_resolvable(self, change: Change, verdict: Verdict) -> tuple[str, ...]:
        """Return the unsent hunks of a file; those in conflict only if they are rejected."""
        return tuple(each for each in self._list_unsent(change) if verdict == "reject" or change.is_hunk_clean(each))

    def _resolve_row(self, verdict: Verdict) -> None:
        row = self._list.current_row
        if row is None:
            return
        if row.kind == "file" and self._is_blocked(self._changes[row.members[0]], verdict):
            return
        self._before_undo, self._sent_at = None, self._clock()
        if row.kind == "bulk":
            if row.name not in self._sent_bulks:
                self._sent_bulks.add(row.name)
                self.post_message(messages.BulkResolved(row.name, verdict))
        else:
            self._resolve_files(row, verdict)
        self._show_header()
        if row.kind == "file" and not (verdict == "accept" and needs_confirmation(self._changes[row.members[0]])):
            self._list.move_cursor(1)

    def _resolve_files(self, row: ChangeRow, verdict: Verdict) -> None:
        """Give a verdict on all files of a row, without protected files among several and accepted conflicts."""
        several = row.kind == "directory"
        chosen = [self._changes[index] for index in row.members]
        chosen = [each for each in chosen if not (several and self._is_blocked(each, verdict))]
        left = [
            (each, ids)
            for each in chosen
            if (ids := self._list_resolvable(each, verdict)) and not (several and each.protected)
        ]
        for change, ids in left:
            self._sent.setdefault(change.path, {}).update(dict.fromkeys(ids, verdict))
        if several and left:
            self.post_message(messages.FilesResolved(tuple(change.path for change, _ in left), verdict))
        elif left:
            self.post_message(messages.HunksResolved(left[0][0].path, left[0][1], verdict))
        if several and (red := sum(change.protected for change in chosen)):
            self.app.notify(f"{red} red: decide on each of them by itself.", markup=False)

    @on(DiffView.VerdictClicked)
    def _on_verdict_clicked(self, event: DiffView.VerdictClicked) -> None:
        event.stop()
        if not self._is_asleep(by_mouse=True) and not self._is_unseen(by_mouse=True):
            self._resolve_current(event.verdict)

    def _send_verdict(self, change: Change, ids: tuple[str, ...], verdict: Verdict, reason: str = "") -> None:
        """Send a verdict and go on; a change that needs confirmation stays on screen."""
        path = change.path
        self._before_undo = None
        self.attention.note_moved(by_hand=False)
        self._refused.pop(path, None)
        self._sent.setdefault(path, {}).update(dict.fromkeys(ids, verdict))
        self._sent_at = self._clock()
        self.post_message(messages.HunksResolved(path, ids, verdict, reason))
        self._show_header()
        if not (verdict == "accept" and needs_confirmation(change)):
            self._go_to_next_unsent()

    def _go_to_next_unsent(self) -> None:
        """Go to the next hunk without a verdict: after this one, before it, then in the next such file."""
        diff, current = self._get_current_diff(), self._view.current
        if diff is not None:
            count = len(diff.change.hunks)
            open_hunks = [each for each in (*range(current, count), *range(current)) if not self._is_sent(each)]
            if open_hunks:
                self._view.select_hunk(open_hunks[0])
                return
        count = len(self._changes)
        for index in (*range(self._index + 1, count), *range(self._index)):
            if self._list_unsent(self._changes[index]):
                self._go_to_file(index, "first")
                return

    def action_undo(self) -> None:
        """Take back the last verdict."""
        if self._is_asleep():
            return
        self.reopen()
        self._before_undo = frozenset(hunk.id for change in self._changes for hunk in change.hunks)
        self.post_message(messages.UndoRequested())

    def action_reject_with_reason(self) -> None:
        """Reject the hunk and give the reason."""
        diff, current = self._get_current_diff(), self._view.current
        if diff is None or self._is_list_shown or current < 0 or self._is_asleep() or self._is_sent(current):
            return
        if self._is_unseen():
            return
        self._input_target = (diff.change.path, (diff.change.hunks[current].id,))
        self.query_one(ReviewInput).ask("reason")
