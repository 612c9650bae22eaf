"""Two small dialogs: a yes-or-no, and a page of text that scrolls (the keys, the context)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.queries import ContextReport
from tui.keymap import PLACES, bindings, by_scope, shown
from tui.screens.dialog import Dialog
from tui.text import clean, one_line, plain


class Confirm(Dialog[bool]):
    """Asks; True only for `y`, and with `grace` only that many seconds after it came up: a key that was meant for what
    was there before is no consent. Nothing is preselected, so Enter does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("confirm")

    def __init__(
        self,
        question: str,
        yes: str,
        *,
        about: str = "",
        no: str = "stay",
        grace: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__()
        self._question, self._yes, self._no, self._about = question, yes, no, about
        self._clock, self._awake_at = clock, clock() + grace

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(plain(self._question), classes="dialog-title")
            if self._about:
                yield Static(plain(self._about), classes="dialog-about")
            yes, no = f" {self._yes}   ", f" {self._no}"
            yield Static(Content.assemble(("y", "$accent bold"), yes, ("n", "$accent bold"), no))

    def action_answer(self, answer: bool) -> None:
        """Close with the answer; a yes that comes too soon is not heard."""
        if not answer or self._clock() >= self._awake_at:
            self.give(answer)


class Page(Dialog[None]):
    """Text to read."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("page")

    def __init__(self, title: str, content: Content) -> None:
        super().__init__()
        self._title, self._content = title, content

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog page"):
            yield Static(Content(self._title), classes="dialog-title")
            with VerticalScroll():
                yield Static(self._content)

    def action_leave(self) -> None:
        """Close the page."""
        self.give(None)


def keys_page(keymap: Mapping[str, str]) -> Page:
    """All keys by place, with the user's own in force."""
    parts: list[tuple[str, str]] = []
    for scope, keys in by_scope().items():
        parts.append((f"\n{PLACES[scope]}\n" if parts else f"{PLACES[scope]}\n", "bold $accent"))
        for key in keys:
            parts += [
                (f"  {shown(keymap.get(key.id, key.keys)):<22}", "bold"),
                (f"{key.tooltip}", ""),
                (f"  {key.id}\n", "$foreground 60%"),
            ]
    return Page("Keys", Content.assemble(*parts))


_HELP: Final = """\
Type what you want and press Enter. The agent works in a shadow of your project: what it
changes waits in the review (Ctrl+R) until you accept it, hunk by hunk.

"""


def help_page() -> Page:
    """The modes, the commands, and where the keys are explained."""
    from tui.commands import SLASHES

    parts: list[tuple[str, str]] = [(_HELP, "")]
    for each in SLASHES:
        parts += [(f"  /{each.word:<10}", "bold"), (each.label, ""), (f"  {each.takes}\n", "$foreground 60%")]
    parts.append(("\n  @ names a file   F1 all keys   Ctrl+P every command   Shift+Tab the mode\n", "$foreground 60%"))
    return Page("Help", Content.assemble(*parts))


def context_page(report: ContextReport) -> Page:
    """What the model is sent, by part."""
    window = f" of {report.window:,}" if report.window else ""
    parts: list[tuple[str, str]] = [(f"{report.used:,}{window} tokens\n\n", "bold")]
    for part in report.parts:
        parts += [(f"{part.tokens:>9,}  ", "$accent"), (one_line(part.name, 60), "")]
        parts.append((f"  {one_line(clean(part.detail), 100)}\n", "$foreground 60%"))
    return Page("Context", Content.assemble(*parts))
