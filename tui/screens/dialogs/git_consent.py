"""The confirmation before a state of git is accepted, with its commits."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.review import GitPreview
from tui.screens.dialogs.pages import ConfirmDialog
from tui.text import clean, to_content

RISK: Final = (
    "Accepting the state of git writes commits, branches and the index of your repository. "
    "Your own commits since then are not merged."
)
_STYLES: Final = {"+": "$text-success", "-": "$text-error", "c": "bold", "@": "$foreground 60%", "d": "$foreground 60%"}


class GitConsentDialog(ConfirmDialog):
    """Asks before a state of git is accepted. Never True for one that can't be accepted as things are."""

    def __init__(self, preview: GitPreview) -> None:
        super().__init__("Accept the state of git?", "" if preview.refused else "accept it", no="leave it pending")
        self._preview = preview

    def compose(self) -> ComposeResult:
        shown = self._preview
        with Vertical(classes="dialog page"):
            with Vertical(classes="dialog-head"):
                yield Static(
                    "The state of git can't be accepted" if shown.refused else self._question, classes="dialog-title"
                )
                yield Static(to_content(shown.refused or RISK), classes="dialog-about")
            with VerticalScroll():
                yield Static(_render_preview(shown))
            yield self._build_keys()

    def set_up(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_answer(self, answer: bool) -> None:
        super().action_answer(answer and not self._preview.refused)


def _render_preview(preview: GitPreview) -> Content:
    parts: list[tuple[str, str]] = [(f"{clean(line)}\n", "") for line in preview.moves]
    parts += [(f"! {clean(line)}\n", "$text-warning") for line in preview.notes]
    parts += [("\n", "")] if parts and preview.text else []
    for line in clean(preview.text).splitlines():
        parts.append((f"{line}\n", _style_line(line)))
    parts += [("… there is more; git shows it once it is accepted\n", "$foreground 60%")] if preview.clipped else []
    return Content.assemble(*parts)


def _style_line(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return "$foreground 60%" if line.startswith("index ") else _STYLES.get(line[:1], "")
