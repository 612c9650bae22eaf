"""The dialog before a rewind: its effects, and the parts to restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, get_args

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.queries import CheckpointInfo, CheckpointPreviewAnswer, RestoredPath
from core.text.counting import count
from tui.dialogs.dialog import Dialog
from tui.dialogs.picker import PickerOption
from tui.keymap import get_bindings
from tui.quantities import format_age
from tui.text import fit_line, format_path
from tui.widgets.key_hints import KeyHints

RestoredPart = Literal["both", "files", "conversation"]
MAX_PATHS: Final = 300
_DISK: Final = {"create": "restored", "edit": "restored", "delete": "removed"}
_PENDING: Final = {
    "propose": "pending again",
    "revise": "pending as before",
    "resolve": "leaves the review",
}
_KEYS: Final = (*((f"rewind.{part}", part) for part in get_args(RestoredPart)), ("rewind.leave", "back"))


def build_options(checkpoints: tuple[CheckpointInfo, ...], now: int) -> list[PickerOption]:
    """Build the picker's options, the newest first. `now` in ms."""
    return [
        PickerOption(checkpoint.id, format_title(checkpoint), _format_note(checkpoint, now))
        for checkpoint in reversed(checkpoints)
    ]


def format_title(info: CheckpointInfo) -> str:
    return fit_line(info.prompt, 60) or "(before the rewind)"


def _format_note(info: CheckpointInfo, now: int) -> str:
    files = count("file", info.files) if info.files else "no files"
    parts = [format_age(now - info.at), f"{files} changed since"]
    return " · ".join([*parts, "rewound"] if info.left else parts)


class RewindDialog(Dialog[RestoredPart]):
    """Asks for "files", "conversation" or "both"; None = go back to nothing."""

    BINDINGS = get_bindings("rewind")
    asks_consent = True
    shape = "rewind"

    def __init__(self, preview: CheckpointPreviewAnswer) -> None:
        super().__init__(Content.assemble("Rewind to before  ", (format_title(preview.info), "$accent")))
        self._preview = preview

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(Content("\n").join(self._render_lines()))
        yield KeyHints(_KEYS, id="rewind-keys")

    def _render_lines(self) -> Iterator[Content]:
        preview = self._preview
        yield Content.assemble(("conversation  ", "$foreground 60%"), _describe_conversation(preview))
        for path in preview.paths[:MAX_PATHS]:
            yield _render_path(path)
        if (hidden_count := len(preview.paths) - MAX_PATHS) > 0:
            yield Content(f"and {hidden_count:,} more files")
        for root in preview.bulks:
            yield Content.assemble(("generated     ", "$foreground 60%"), format_path(root, 60), "  restored")
        if preview.info.problem:
            yield Content.assemble((fit_line(preview.info.problem, 300), "$text-error"))
        if not (preview.paths or preview.bulks):
            yield Content.assemble(("files         ", "$foreground 60%"), "unchanged")

    def action_choose(self, part: RestoredPart) -> None:
        self.answer(part)

    def action_scroll(self, pages: int) -> None:
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=pages * max(view.size.height // 2, 1), animate=False)


def _describe_conversation(preview: CheckpointPreviewAnswer) -> str:
    if not preview.info.prompt:
        return "as it was before the rewind"
    goes = count("message", preview.messages) if preview.messages else "nothing"
    return f"Removes {goes}; your prompt is restored"


def _render_path(path: RestoredPath) -> Content:
    name = format_path(path.path, 200)
    if path.reason:
        reason = (f"  {fit_line(path.reason, 200)}", "$foreground 60%")
        return Content.assemble(("left alone    ", "$text-warning"), name, reason)
    location = "your file     " if path.disk else "review        "
    effects = filter(None, (_DISK.get(path.disk), _PENDING.get(path.pending)))
    return Content.assemble((location, "$foreground 60%"), name, "  ", ", ".join(effects))
