"""Before something is taken back: what that changes, and which of it is to go back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.queries import CheckpointInfo, CheckpointPreview, RestoredPath
from tui.keymap import bindings
from tui.screens.dialog import Dialog
from tui.screens.picker import Choice
from tui.text import named, one_line
from tui.widgets.sessions import ago
from tui.widgets.side import hint

SHOWN: Final = 300  # paths
_DISK: Final = {"create": "comes back", "edit": "as it was", "delete": "is removed"}
_PENDING: Final = {"propose": "waits again", "revise": "waits as it did", "resolve": "waits no more"}
_KEYS: Final = (
    ("rewind.both", "both"),
    ("rewind.files", "files"),
    ("rewind.conversation", "conversation"),
    ("rewind.leave", "back"),
)


def choices(checkpoints: tuple[CheckpointInfo, ...], now: int) -> list[Choice]:
    """The newest first. `now` in ms."""
    return [Choice(each.id, title(each), _note(each, now)) for each in reversed(checkpoints)]


def title(info: CheckpointInfo) -> str:
    """What the user was about to say, or to take back."""
    return one_line(info.prompt, 60) or "(before you went back)"


def _note(info: CheckpointInfo, now: int) -> str:
    files = f"{info.files} file{'' if info.files == 1 else 's'} since" if info.files else "no files since"
    parts = [ago(now - info.at), files]
    return " · ".join([*parts, "left behind"] if info.left else parts)


class Rewind(Dialog[str | None]):
    """Answers "files", "conversation", "both" or None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("rewind")
    consents = True

    def __init__(self, preview: CheckpointPreview) -> None:
        super().__init__()
        self._preview = preview

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog rewind"):
            yield Static(Content.assemble("Back to  ", (title(self._preview.info), "$accent")), classes="dialog-title")
            with VerticalScroll():
                yield Static(Content("\n").join(self._lines()))
            yield Static(hint(_KEYS, getattr(self.app, "keymap", {})), id="rewind-keys")

    def _lines(self) -> Iterator[Content]:
        preview = self._preview
        count = preview.messages
        goes = f"{count} message{'' if count == 1 else 's'}" if count else "nothing"
        yield Content.assemble(
            ("conversation  ", "$foreground 60%"), f"{goes} would go; your words come back to the prompt"
        )
        for each in preview.paths[:SHOWN]:
            yield _line(each)
        if (more := len(preview.paths) - SHOWN) > 0:
            yield Content(f"and {more:,} more files")
        for root in preview.bulks:
            yield Content.assemble(("generated     ", "$foreground 60%"), named(root, 60), "  as it was")
        if preview.info.problem:
            yield Content.assemble((one_line(preview.info.problem, 300), "$text-error"))
        if not (preview.paths or preview.bulks):
            yield Content.assemble(("files         ", "$foreground 60%"), "are as they were")

    def action_choose(self, what: str) -> None:
        """Take that back."""
        self.give(what)

    def action_scroll(self, pages: int) -> None:
        """Read on."""
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=pages * max(view.size.height // 2, 1), animate=False)

    def action_leave(self) -> None:
        """Take nothing back."""
        self.give(None)


def _line(path: RestoredPath) -> Content:
    name = named(path.path, 200)
    if path.reason:
        return Content.assemble(
            ("left alone    ", "$text-warning"), name, (f"  {one_line(path.reason, 200)}", "$foreground 60%")
        )
    what = [_DISK[path.disk]] if path.disk else []
    where = "your file     " if what else "review        "
    if path.pending:
        what.append(_PENDING[path.pending])
    return Content.assemble((where, "$foreground 60%"), name, "  ", ", ".join(what))
