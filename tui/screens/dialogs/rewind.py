"""The dialog before a rewind: what it changes, and which part of it is to go back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.queries import CheckpointInfo, CheckpointPreviewAnswer, RestoredPath
from tui.keymap import get_bindings
from tui.quantities import count, format_age
from tui.screens.dialogs.dialog import Dialog
from tui.screens.dialogs.picker import PickerOption
from tui.text import fit_line, format_path
from tui.widgets.key_hints import format_hints

MAX_PATHS: Final = 300  # paths
_DISK: Final = {"create": "comes back", "edit": "as it was", "delete": "is removed"}
_PENDING: Final = {"propose": "waits again", "revise": "waits as it did", "resolve": "waits no more"}
_KEYS: Final = (
    ("rewind.both", "both"),
    ("rewind.files", "files"),
    ("rewind.conversation", "conversation"),
    ("rewind.leave", "back"),
)


def build_options(checkpoints: tuple[CheckpointInfo, ...], now: int) -> list[PickerOption]:
    """Build the picker's options, the newest first. `now` in ms."""
    return [PickerOption(each.id, format_title(each), _format_note(each, now)) for each in reversed(checkpoints)]


def format_title(info: CheckpointInfo) -> str:
    """Format the prompt that a checkpoint was made before."""
    return fit_line(info.prompt, 60) or "(before you went back)"


def _format_note(info: CheckpointInfo, now: int) -> str:
    files = count("file", info.files) if info.files else "no files"
    parts = [format_age(now - info.at), f"{files} since"]
    return " · ".join([*parts, "left behind"] if info.left else parts)


class RewindDialog(Dialog[str | None]):
    """Asks for "files", "conversation" or "both"; None = go back to nothing."""

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("rewind")
    asks_consent = True

    def __init__(self, preview: CheckpointPreviewAnswer) -> None:
        super().__init__()
        self._preview = preview

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog rewind"):
            yield Static(
                Content.assemble("Back to  ", (format_title(self._preview.info), "$accent")), classes="dialog-title"
            )
            with VerticalScroll():
                yield Static(Content("\n").join(self._render_lines()))
            yield Static(format_hints(_KEYS, getattr(self.app, "keymap", {})), id="rewind-keys")

    def _render_lines(self) -> Iterator[Content]:
        preview = self._preview
        goes = count("message", preview.messages) if preview.messages else "nothing"
        yield Content.assemble(
            ("conversation  ", "$foreground 60%"), f"{goes} would go; your words come back to the prompt"
        )
        for each in preview.paths[:MAX_PATHS]:
            yield _render_path(each)
        if (more := len(preview.paths) - MAX_PATHS) > 0:
            yield Content(f"and {more:,} more files")
        for root in preview.bulks:
            yield Content.assemble(("generated     ", "$foreground 60%"), format_path(root, 60), "  as it was")
        if preview.info.problem:
            yield Content.assemble((fit_line(preview.info.problem, 300), "$text-error"))
        if not (preview.paths or preview.bulks):
            yield Content.assemble(("files         ", "$foreground 60%"), "are as they were")

    def action_choose(self, what: str) -> None:
        """Take that part back."""
        self.answer(what)

    def action_scroll(self, pages: int) -> None:
        """Scroll by half pages."""
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=pages * max(view.size.height // 2, 1), animate=False)

    def action_leave(self) -> None:
        """Take nothing back."""
        self.answer(None)


def _render_path(path: RestoredPath) -> Content:
    name = format_path(path.path, 200)
    if path.reason:
        return Content.assemble(
            ("left alone    ", "$text-warning"), name, (f"  {fit_line(path.reason, 200)}", "$foreground 60%")
        )
    what = [_DISK[path.disk]] if path.disk else []
    where = "your file     " if what else "review        "
    if path.pending:
        what.append(_PENDING[path.pending])
    return Content.assemble((where, "$foreground 60%"), name, "  ", ", ".join(what))
