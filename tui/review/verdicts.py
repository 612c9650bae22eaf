"""Verdicts that were sent and are not answered yet, and what others were refused for.

The engine's answer to a verdict is the list of changes as it is afterwards: a hunk that is gone has its verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from core.protocol.review import Change, Verdict

ANSWER_TIMEOUT: Final = 3.0  # seconds after which a verdict that nothing came of can be given again


class SentVerdicts:
    """`hunks`: verdicts by path and hunk id; `bulks`: roots; `refused`: reasons by path or root, "" = a conflict."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sent_at = 0.0
        self.hunks: dict[str, dict[str, Verdict]] = {}
        self.bulks: set[str] = set()
        self.refused: dict[str, str] = {}

    def get_hunks(self, path: str) -> Mapping[str, Verdict]:
        return self.hunks.get(path, {})

    def list_unsent(self, change: Change) -> tuple[str, ...]:
        """Return the ids of the hunks without a verdict."""
        verdicts = self.get_hunks(change.path)
        return tuple(hunk.id for hunk in change.hunks if hunk.id not in verdicts)

    def list_resolvable(self, change: Change, verdict: Verdict) -> tuple[str, ...]:
        """Return the unsent hunks of a file; those in conflict only if they are rejected."""
        return tuple(
            hunk_id for hunk_id in self.list_unsent(change) if verdict == "reject" or change.is_hunk_clean(hunk_id)
        )

    def add_hunks(self, path: str, ids: Iterable[str], verdict: Verdict) -> None:
        self.hunks.setdefault(path, {}).update(dict.fromkeys(ids, verdict))
        self._sent_at = self._clock()

    def add_bulk(self, root: str) -> bool:
        """Take note that a verdict on a bulk was sent. False if one is under way already."""
        if root in self.bulks:
            return False
        self.bulks.add(root)
        self._sent_at = self._clock()
        return True

    def refuse_conflict(self, change: Change, verdict: Verdict, hunk: str = "") -> bool:
        """Refuse to accept a hunk in conflict, or ("") a file of which nothing is clean. True if it was refused."""
        if verdict != "accept" or (change.is_hunk_clean(hunk) if hunk else change.clean_hunks or not change.conflict):
            return False
        self.refused.pop(change.path, None)
        self.refused[change.path] = ""  # the latest stands last
        return True

    def reopen(self, name: str = "", reason: str = "") -> None:
        """Forget the verdict on a file or bulk ("" = on all): it can be given again. `reason`: what it was refused
        for."""
        for path in [name] if name else list(self.hunks):
            self.hunks.pop(path, None)
        self.bulks -= {name} if name else self.bulks.copy()
        if name and reason:
            self.refused[name] = reason

    def reopen_unanswered(self) -> bool:
        """Forget what was not answered in time. True if there was any."""
        if not (self.hunks or self.bulks) or self._clock() - self._sent_at <= ANSWER_TIMEOUT:
            return False
        self.reopen()
        return True

    def forget_answered(self, changes: Sequence[Change], unchanged_paths: Iterable[str]) -> tuple[str, str]:
        """Drop what was answered or ran into a conflict, and reasons of files that have changed.

        Return path and hunk of one in conflict, else "" and "".
        """
        retained_paths = frozenset(unchanged_paths)
        self.refused = {path: reason for path, reason in self.refused.items() if path in retained_paths}
        by_path = {change.path: change for change in changes}
        conflicting = ("", "")
        for path, verdicts in list(self.hunks.items()):
            change = by_path.get(path)
            ids = [
                hunk
                for hunk in verdicts
                if change is not None and any(hunk == current_hunk.id for current_hunk in change.hunks)
            ]
            clashing = []
            if change is not None and change.conflict:
                clashing = [hunk for hunk in ids if verdicts[hunk] == "accept" and not change.is_hunk_clean(hunk)]
            if clashing:
                conflicting, self.refused[path] = (path, clashing[0]), ""
            self.hunks[path] = {hunk: verdicts[hunk] for hunk in ids if hunk not in clashing}
        self.hunks = {path: remaining for path, remaining in self.hunks.items() if remaining}
        return conflicting
