"""Two small dialogs: a yes-or-no, and a page of text that scrolls (the keys, the context)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.queries import ContextReport
from tui.keymap import PLACES, bindings, by_scope, key_of, shown
from tui.screens.dialog import Dialog
from tui.sight import is_whole
from tui.text import clean, one_line, plain
from tui.widgets.rows import breaks

KEYS_AT_MOST: Final = 14  # columns for keys before what they do; more keys than that push it to the right
MARGINS: Final = 6  # columns before the keys, and between them, what they do, and their id


class Confirm(Dialog[bool]):
    """Asks; True only for `y`. Nothing is preselected, so Enter does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("confirm")
    consents = True

    def __init__(self, question: str, yes: str, *, about: str = "", no: str = "stay") -> None:
        super().__init__()
        self._question, self._yes, self._no, self._about = question, yes, no, about

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from self._parts()

    def _parts(self) -> ComposeResult:
        yield Static(plain(self._question), classes="dialog-title")
        if self._about:
            yield Static(plain(self._about), classes="dialog-about")
        yield self._keys()

    def _keys(self) -> Static:
        return Static(self.named_keys(), id="confirm-keys")

    def named_keys(self) -> Content:
        """What each key answers."""
        keymap = getattr(self.app, "keymap", {})
        yes, no = (key_of(name, keymap) for name in ("confirm.yes", "confirm.no"))
        said = () if not self._yes else ((yes, "$accent bold"), f" {self._yes}   ")
        return Content.assemble(*said, (no, "$accent bold"), f" {self._no}")

    def is_read(self) -> bool:
        return is_whole(self.query_one(".dialog-title")) and super().is_read()

    def action_answer(self, answer: bool) -> None:
        """Close with the answer; a yes that comes too soon, or to what is not seen, is not heard."""
        self.give(answer)


class PageText(Static):
    """`draw(width)` gives the text for so many columns."""

    def __init__(self, draw: Callable[[int], Content]) -> None:
        super().__init__()
        self._draw = draw

    def on_resize(self, event: events.Resize) -> None:
        self.update(self._draw(event.size.width))


class Page(Dialog[None]):
    """Text to read: the same for every width, or drawn for one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("page")

    def __init__(self, title: str, content: Content | Callable[[int], Content]) -> None:
        super().__init__()
        self._title, self._content = title, content

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog page"):
            yield Static(Content(self._title), classes="dialog-title")
            with VerticalScroll():
                yield Static(self._content) if isinstance(self._content, Content) else PageText(self._content)

    def action_leave(self) -> None:
        """Close the page."""
        self.give(None)


def keys_page(keymap: Mapping[str, str]) -> Page:
    """All keys by place, with the user's own in force."""
    return Page("Keys", lambda width: keys_text(keymap, width))


def keys_text(keymap: Mapping[str, str], width: int) -> Content:
    """One row a key while there is room for what it does; the ids stand behind if there is room for all of them."""
    parts: list[tuple[str, str]] = []
    scopes = {scope: [(shown(keymap.get(key.id, key.keys)), key) for key in keys] for scope, keys in by_scope().items()}
    widest = {scope: min(max(len(keys) for keys, _ in rows), KEYS_AT_MOST) for scope, rows in scopes.items()}
    with_ids = all(
        max(widest[scope], len(keys)) + len(key.tooltip) + len(key.id) + MARGINS <= width
        for scope, rows in scopes.items()
        for keys, key in rows
    )
    for scope, rows in scopes.items():
        parts.append((f"\n{PLACES[scope]}\n" if parts else f"{PLACES[scope]}\n", "bold $accent"))
        for keys, key in rows:
            first, *rest = _wrapped(key.tooltip, width - max(widest[scope], len(keys)) - 4)
            parts += [(f"  {keys:<{widest[scope]}}  ", "bold"), (first, "")]
            parts += [(f"  {key.id}", "$foreground 60%")] if with_ids else []
            parts += [(f"\n{' ' * (max(widest[scope], len(keys)) + 4)}{line}", "") for line in rest] + [("\n", "")]
    if not with_ids:
        parts.append(("\nIds for ui.keymap: docs/keys.md, or a wider window", "$foreground 60%"))
    return Content.assemble(*parts)


def _wrapped(text: str, width: int) -> list[str]:
    return [text[start:end] for start, end in breaks(text, width)]


_HELP: Final = """\
Type what you want and press Enter. The agent works in a shadow of your project: \
what it changes waits in the review (Ctrl+R) until you accept it, hunk by hunk.

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
    parts += [(f"\n{one_line(clean(note), 200)}", "$foreground 60%") for note in report.notes]
    return Page("Context", Content.assemble(*parts))
