"""Verdicts of a review: those that were sent, the progress that they make, and the lines above and below the diff."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from core.protocol.review import Bulk, Change, Verdict, VerdictRecord
from core.text.counting import count
from tui.keymap import format_first_key, insert_keys
from tui.review.descriptions import MUTED, Part, describe_risk
from tui.review.diff.layout import FoldedHunk
from tui.text import format_path, to_content

ANSWER_TIMEOUT: Final = 3.0  # seconds after which an unanswered verdict may be submitted again
METER_WIDTH: Final = 24  # cells
METER_MIN_WIDTH: Final = 4
ON_DISK, IN_SHADOW = "░", "▓"
_WORDS: Final = {"accept": "written", "reject": "rejected"}


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
        """Record that a verdict on a bulk was sent. Return False if one is already under way."""
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
        self.refused[change.path] = ""  # the latest last
        return True

    def reopen(self, name: str = "", reason: str = "") -> None:
        """Forget the verdict on a file or bulk ("" = all), so that it can be submitted again. `reason`: of its
        refusal."""
        for path in [name] if name else list(self.hunks):
            self.hunks.pop(path, None)
        self.bulks -= {name} if name else self.bulks.copy()
        if name and reason:
            self.refused[name] = reason

    def reopen_unanswered(self) -> bool:
        """Forget verdicts that were not answered in time. Return True if there were any."""
        if not (self.hunks or self.bulks) or self._clock() - self._sent_at <= ANSWER_TIMEOUT:
            return False
        self.reopen()
        return True

    def forget_answered(self, changes: Sequence[Change], unchanged_paths: Iterable[str]) -> tuple[str, str]:
        """Drop answered and conflicting verdicts, and the refusals of changed files.

        Return path and hunk of a verdict in conflict, else "" and "".
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


class Progress(Struct, frozen=True, eq=False):
    """Numbers of hunks and bulks of a review, by verdict."""

    accepted: int = 0
    rejected: int = 0
    waiting: int = 0

    @property
    def total(self) -> int:
        """The number of all of them."""
        return self.accepted + self.rejected + self.waiting

    @property
    def judged(self) -> int:
        """The number of those with a verdict."""
        return self.accepted + self.rejected


def measure_progress(changes: Sequence[Change], bulks: Sequence[Bulk], records: Sequence[VerdictRecord]) -> Progress:
    """Count pending and judged hunks with the rules of the badge and the status line."""
    counts = {"accept": 0, "reject": 0}
    for record in records:
        if record.bulk is not None:
            counts[record.verdict] += record.bulk.needs_verdict
        elif not _is_rename_source(record):
            counts[record.verdict] += max(len(record.hunks), 1)
    waiting = sum(max(len(change.hunks), 1) for change in changes) + sum(bulk.needs_verdict for bulk in bulks)
    return Progress(counts["accept"], counts["reject"], waiting)


def _is_rename_source(record: VerdictRecord) -> bool:
    """True for the record of a rename's old path, which accompanies that of the new one."""
    return bool(record.moved_with) and not record.renamed_from


def fold_judged(records: Sequence[VerdictRecord], keymap: Mapping[str, str]) -> dict[str, list[FoldedHunk]]:
    """Return a row for every verdict, by path and in the order of lines; the last one names the key that undoes it."""
    folded_hunks: dict[str, list[FoldedHunk]] = {}
    for record in records:
        if record.bulk is not None or _is_rename_source(record):
            continue
        line = record.hunks[0].new_start if record.hunks else 0
        name = format_path(record.path.rpartition("/")[2], 60)
        text = f"{_WORDS[record.verdict]} {name}{f':{line}' if line else ''}"
        text += f" · {len(record.hunks)} hunks" if len(record.hunks) > 1 else ""
        text += f" · {format_first_key('review.undo', keymap)}" if record is records[-1] else ""
        folded_hunks.setdefault(record.path, []).append(FoldedHunk(line, text, record.verdict == "accept"))
    return {path: sorted(rows, key=lambda row: row.line) for path, rows in folded_hunks.items()}


def draw_meter(progress: Progress, room: int) -> list[Part]:
    """Draw a meter of the shadow, which drains as hunks land on disk, and the judged count, in `room` cells."""
    count = f" {progress.judged:,}/{progress.total:,} "
    width = min(METER_WIDTH, room - len(" disk  shadow ") - len(count))
    if progress.total == 0 or width < METER_MIN_WIDTH:
        return [(count, "bold")] if progress.total else []
    accepted_width = round(width * progress.accepted / max(progress.accepted + progress.waiting, 1))
    accepted_width = min(max(accepted_width, progress.accepted > 0), width - (progress.waiting > 0))
    meter: list[Part] = [
        (ON_DISK * accepted_width, "$text-success"),
        (IN_SHADOW * (width - accepted_width), "$foreground 50%"),
    ]
    return [(" disk ", MUTED), *meter, (" shadow ", MUTED), (count, "bold")]


class ReviewFrame:
    """`above` and `below` are yielded by the widget that has them, around its diff."""

    def __init__(self) -> None:
        self._lines = {name: Static(classes=f"review--{name}") for name in ("progress", "origin", "risk", "conflict")}
        first, *rest = self._lines.values()
        self.above: Widget = first
        self.below: tuple[Widget, ...] = tuple(rest)

    def show_progress(self, parts: Sequence[Part]) -> None:
        """Show the progress and the pending items outside of files; nothing without any."""
        self._show("progress", Content.assemble(*parts))

    def show_change(self, change: Change | None, origin: Sequence[Part], problem: str) -> None:
        """Show the origin of the current change, its risk, and why it can't be accepted."""
        self._show("origin", Content.assemble(*origin))
        self._show("risk", to_content(describe_risk(change) if change else ""))
        self._lines["risk"].set_class(change is not None and not change.protected, "-label")
        self._show("conflict", to_content(problem))

    def _show(self, name: str, text: Content) -> None:
        self._lines[name].display = bool(text)
        self._lines[name].update(text)


def describe_waiting(bulks: Sequence[Bulk], comments: int, keymap: Mapping[str, str]) -> list[Part]:
    """Describe pending bulks and comments, with their keys."""
    parts = [f"{len(bulks)} in bulk ({{review.list}})"] if bulks else []
    parts += [f"{count('comment', comments)} ({{review.send}} to send)"] if comments else []
    return [(insert_keys(f" {' · '.join(parts)} ", keymap), "$text-warning")] if parts else []


def describe_list(changes: Sequence[Change], bulks: Sequence[Bulk]) -> list[Part]:
    """Describe the size of a list."""
    counts = [count("file", len(changes))] if changes else []
    counts += [f"{len(bulks)} in bulk, all or nothing"] if bulks else []
    return [(f" {' · '.join(counts)}", "bold")] if counts else []


def describe_settled(progress: Progress, *, can_commit: bool) -> str:
    """Describe a review without pending changes; "" if nothing was judged in it.

    Its last line names the next steps (undo, commit).
    """
    if not progress.judged:
        return ""
    parts = [("accepted", progress.accepted), ("rejected", progress.rejected)]
    summary = ", ".join(f"{word} {count:,}" for word, count in parts if count)
    commits = " · {review.comment} commit" if can_commit else ""
    return f"{summary[0].upper()}{summary[1:]}\n\nAll reviewed · {{review.undo}} undo{commits}"
