"""Progress of a review: what was judged since it began, folded to a row each, and how much is still in the shadow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from core.protocol.review import Bulk, Change, VerdictRecord
from tui.keymap import format_first_key
from tui.review.descriptions import MUTED, Part
from tui.review.diff.layout import FoldedHunk
from tui.text import format_path

METER_WIDTH: Final = 24  # cells
METER_MIN_WIDTH: Final = 4
ON_DISK, IN_SHADOW = "░", "▓"
_WORDS: Final = {"accept": "written", "reject": "rejected"}


class Progress(Struct, frozen=True, eq=False):
    """Hunks and bulks of a review, by what became of them."""

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
    """Count what waits and what was judged, as the badge and the status line count."""
    counts = {"accept": 0, "reject": 0}
    for record in records:
        if record.bulk is not None:
            counts[record.verdict] += record.bulk.needs_verdict
        elif not _is_other_half(record):
            counts[record.verdict] += max(len(record.hunks), 1)
    waiting = sum(max(len(change.hunks), 1) for change in changes) + sum(bulk.needs_verdict for bulk in bulks)
    return Progress(counts["accept"], counts["reject"], waiting)


def _is_other_half(record: VerdictRecord) -> bool:
    """True for the verdict on the old path of a rename, which was given with that on the new one."""
    return bool(record.moved_with) and not record.renamed_from


def fold_judged(records: Sequence[VerdictRecord], keymap: Mapping[str, str]) -> dict[str, list[FoldedHunk]]:
    """Return a row for each verdict, by path and in the order of lines; the last one names the key that undoes it."""
    folded_hunks: dict[str, list[FoldedHunk]] = {}
    for record in records:
        if record.bulk is not None or _is_other_half(record):
            continue
        line = record.hunks[0].new_start if record.hunks else 0
        name = format_path(record.path.rpartition("/")[2], 60)
        text = f"{_WORDS[record.verdict]} {name}{f':{line}' if line else ''}"
        text += f" · {len(record.hunks)} hunks" if len(record.hunks) > 1 else ""
        text += f" · {format_first_key('review.undo', keymap)}" if record is records[-1] else ""
        folded_hunks.setdefault(record.path, []).append(FoldedHunk(line, text, record.verdict == "accept"))
    return {path: sorted(rows, key=lambda row: row.line) for path, rows in folded_hunks.items()}


def draw_meter(progress: Progress, room: int) -> list[Part]:
    """Return the meter of the shadow, which drains as hunks land on disk, and how many are judged; cut to `room`."""
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
