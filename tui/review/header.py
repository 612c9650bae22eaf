"""The lines around the diff: how far the review is, above; where the current change came from and why it can't be
accepted, below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from core.protocol.review import Bulk, Change
from core.text.counting import count
from tui.keymap import insert_keys
from tui.review.descriptions import Part, describe_risk
from tui.review.progress import Progress
from tui.text import fit_line, to_content


class ReviewFrame:
    """`above` and `below` are yielded by the widget that has them, around its diff."""

    def __init__(self) -> None:
        self._lines = {name: Static(classes=f"review--{name}") for name in ("progress", "origin", "risk", "conflict")}
        first, *rest = self._lines.values()
        self.above: Widget = first
        self.below: tuple[Widget, ...] = tuple(rest)

    def show_progress(self, parts: Sequence[Part]) -> None:
        """Show how far the review is, and what waits beside the files; nothing without any."""
        self._show("progress", Content.assemble(*parts))

    def show_change(self, change: Change | None, origin: Sequence[Part], problem: str) -> None:
        """Show the origin of the current change, its risk, and why it can't be accepted; each if any."""
        self._show("origin", Content.assemble(*origin))
        self._show("risk", to_content(describe_risk(change) if change else ""))
        self._lines["risk"].set_class(change is not None and not change.protected, "-label")
        self._show("conflict", to_content(problem))

    def _show(self, name: str, text: Content) -> None:
        self._lines[name].display = bool(text)
        self._lines[name].update(text)


def describe_waiting(bulks: Sequence[Bulk], comments: int, keymap: Mapping[str, str]) -> list[Part]:
    """Return what waits beside the hunks, with the keys that lead there."""
    parts = [f"{len(bulks)} in bulk ({{review.list}})"] if bulks else []
    parts += [f"{count('comment', comments)} ({{review.send}} sends)"] if comments else []
    return [(insert_keys(f" {' · '.join(parts)} ", keymap), "$text-warning")] if parts else []


def describe_listed(changes: Sequence[Change], bulks: Sequence[Bulk], pattern: str) -> list[Part]:
    """Return how much a list holds, and the words that it was searched for."""
    counts = [count("file", len(changes))] if changes else []
    counts += [f"{len(bulks)} in bulk, judged as a whole"] if bulks else []
    parts = [(f" {' · '.join(counts)}", "bold")]
    return [*parts, (f"  / {fit_line(pattern, 40)}", "$text-primary")] if pattern else parts


def describe_settled(progress: Progress, *, can_commit: bool) -> str:
    """Return the words for a review in which nothing waits any more; "" if nothing was judged in it.

    What can be done next (undo, commit) stands in its last line.
    """
    if not progress.judged:
        return ""
    parts = [("accepted", progress.accepted), ("rejected", progress.rejected)]
    summary = ", ".join(f"{word} {count:,}" for word, count in parts if count)
    commits = " · {review.comment} commits" if can_commit else ""
    return f"{summary[0].upper()}{summary[1:]}\n\nNothing waits any more · {{review.undo}} undoes{commits}"
