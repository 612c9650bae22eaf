"""Asked before what is red, or what removes a file, is accepted: with the lines that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.strip import Strip
from textual.widgets import Static

from core.protocol.review import Change, ChangeDiff
from tui.keymap import bindings, key_of
from tui.screens.notes import Confirm
from tui.sight import sight
from tui.text import named, plain
from tui.widgets.diff_view import DiffView

NAMED: Final = 8  # files of several that are named


class AskedDiff(DiffView, can_focus=False):
    """The lines that are asked about: nothing in it can be judged or marked."""

    def _chips(self, *_: object) -> Strip:
        return Strip([])

    def on_click(self, event: events.Click) -> None:
        event.prevent_default()


class ChangeConsent(Confirm):
    """`Confirm` for one change, whose `diff` (None: it can't be shown as lines) is seen while it is asked about."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("confirm", "consent")

    def __init__(self, change: Change, diff: ChangeDiff | None, *, hunk: str = "") -> None:
        gone = change.operation == "delete"
        question = f"{'Delete' if gone else 'Accept'} {named(change.path, 200)}?"
        super().__init__(question, "delete it" if gone else "accept it", about=why(change), no="leave it pending")
        self._diff, self._hunk = diff, hunk

    def compose(self) -> ComposeResult:
        if self._diff is None:
            yield from super().compose()
            return
        with Vertical(classes="dialog wide"):
            yield Static(plain(self._question), classes="dialog-title")
            yield Static(plain(self._about), classes="dialog-about")
            yield AskedDiff()
            yield self._keys()

    def opened(self) -> None:
        if self._diff is not None:
            ids = [each.id for each in self._diff.change.hunks]
            self.query_one(AskedDiff).show(self._diff, ids.index(self._hunk) if self._hunk in ids else 0)
            self.call_after_refresh(self.name_the_keys)

    def on_resize(self) -> None:
        self.call_after_refresh(self.name_the_keys)

    def name_the_keys(self) -> None:
        """With those that move the lines, where there are more of them than are seen."""
        for view in self.query(AskedDiff):
            goes = [("consent.down", "consent.up")] if view.max_scroll_y else []
            goes += [("consent.right", "consent.left")] if view.max_scroll_x else []
            keymap = getattr(self.app, "keymap", {})
            moving = " ".join(key_of(name, keymap) for pair in goes for name in pair)
            more = (("   ", ""), (moving, "$accent"), (" read on", "$foreground 60%")) if goes else ()
            self.query_one("#confirm-keys", Static).update(self.named_keys().append(Content.assemble(*more)))

    def is_read(self) -> bool:
        return all(sight(view) == "seen" for view in self.query(AskedDiff)) and super().is_read()

    def action_scroll(self, pages: int) -> None:
        """Read on."""
        for view in self.query(AskedDiff):
            view.scroll_relative(y=pages * max(view.size.height // 2, 1), animate=False)

    def action_shift(self, step: int) -> None:
        """To where the lines go on."""
        for view in self.query(AskedDiff):
            view.action_shift(step)


def deletions(changes: Sequence[Change]) -> Confirm | None:
    """What asks before several files are accepted of which some are gone from the disk then; None: none is."""
    gone = [named(each.path, 60) for each in changes if each.operation == "delete" and not each.protected]
    if not gone:
        return None
    more = f" and {len(gone) - NAMED:,} more" if len(gone) > NAMED else ""
    what = "it" if len(gone) == 1 else "them"
    return Confirm(
        f"Delete {len(gone):,} file{'' if len(gone) == 1 else 's'} with what is accepted?",
        f"accept, and delete {what}",
        about=f"{', '.join(gone[:NAMED])}{more}",
        no="leave all of it pending",
    )


def why(change: Change) -> str:
    """Why it is asked about, in a sentence or two."""
    told = [f"It {change.risk}." if change.risk else "It is protected."] if change.protected else []
    told += ["The file is removed from your disk."] if change.operation == "delete" else []
    return " ".join([*told, "Look at each line of it before you accept."])
