"""The help of the focused pane: its purpose, its keys, then all other keys; searchable by words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.widgets import Input, Static

from tui.dialogs.dialog import Dialog
from tui.key_table import Key
from tui.keymap import SCOPE_TITLES, format_keys, get_bindings, group_by_scope
from tui.widgets.input_line import SteadyInput
from tui.widgets.text_rows import find_line_breaks

MAX_KEY_COLUMNS: Final = 14  # columns of keys before the explanation, unless one key is longer; more keys wrap
MARGIN: Final = 4  # columns before the keys, and between keys and explanation
NOTHING: Final = "No key matches. Ctrl+P searches all commands."
# The purpose of each scope, for new users.
PLACES: Final = {
    "prompt": "Type what you want. @ mentions a file or a symbol, / lists commands, ! runs a command sandboxed. "
    "Messages sent while a turn runs are added to it.",
    "transcript": "The conversation, block by block. Open a block for its full call, output and edit.",
    "review": "The agent's pending changes. Your files are untouched until you accept, "
    "hunk by hunk, by file, or everything from one prompt. A line at a hunk says what the project's check shows of it.",
    "changes": "Pending hunks, those to look at first, or files by directory. A verdict here applies to the whole row; "
    "what needs no test is folded.",
    "files": "The project's files as the agent sees them. Files it changed are marked.",
    "preview": "A file as the agent sees it. Look up or rename names, or add lines to the prompt.",
    "plan": "This session's plan: todos with dependencies, saved as a file in the project. Build works "
    "through them in order.",
    "debug": "Possible causes of a bug, and what the probes logged in each run. Answer the card to continue.",
    "agents": "This session's subagents: what they do, cost, and how they ended.",
    "findings": "Findings of a code review, most severe first. A finding is not a change; it points to lines.",
    "background": "Agents that work without a screen. Open one to pull its changes into your review.",
    "approval": "A command, a host or a tool needs your approval. Nothing is preselected, and keys work only once "
    "all of it is on screen.",
    "question": "The agent has a question and continues with your answer. Esc leaves it for later.",
}


def list_scopes(focus: DOMNode) -> list[str]:
    """Return the scopes of the active keys: that of the focused widget first, then the nearest."""
    candidates: dict[str, None] = {}
    for node in focus.ancestors_with_self:
        for key in node._bindings.key_to_bindings.values():
            candidates |= {binding.id.partition(".")[0]: None for binding in key if binding.id and "." in binding.id}
    scopes = [scope for scope in candidates if scope in SCOPE_TITLES and scope != "app"]
    main_scope = next((scope for scope in scopes if scope in PLACES), "")
    return sorted(scopes, key=lambda scope: scope != main_scope)


def render_keys(keymap: Mapping[str, str], width: int, local_scopes: Sequence[str] = (), words: str = "") -> Content:
    """Render one row per key with its explanation if there is room: first the scopes `local_scopes` with their
    purposes. `words`: only keys that match all of them."""
    search_words, table, parts = words.lower().split(), group_by_scope(), list[tuple[str, str]]()
    main_scope = next((scope for scope in local_scopes if scope in PLACES), "")
    if main_scope and not search_words:
        text = PLACES[main_scope]
        parts += [(f"{SCOPE_TITLES[main_scope]}\n", "bold $accent")]
        parts += [(f"{line}\n", "") for line in _wrap_text(text, width)] + [("\n", "")]
    for scope in (*local_scopes, *(other_scope for other_scope in table if other_scope not in local_scopes)):
        rows = [(format_keys(keymap.get(key.id, key.keys)), key) for key in table[scope]]
        rows = [(keys, key) for keys, key in rows if _has_words(keys, key, search_words)]
        if rows:
            title = f"Keys: {SCOPE_TITLES[scope]}" if scope == main_scope and not search_words else SCOPE_TITLES[scope]
            parts += [(f"{title}\n", "bold $accent"), *_render_scope(rows, width), ("\n", "")]
    return Content.assemble(*parts or [(NOTHING, "$foreground 60%")])


def _has_words(keys: str, key: Key, words: Sequence[str]) -> bool:
    text = f"{keys} {key.id} {SCOPE_TITLES[key.scope]} {key.label} {key.tooltip}".lower()
    return all(word in text for word in words)


def _render_scope(rows: Sequence[tuple[str, Key]], width: int) -> Iterator[tuple[str, str]]:
    longest = max(len(part) for keys, _ in rows for part in keys.split(" "))
    column = max(min(max(len(keys) for keys, _ in rows), MAX_KEY_COLUMNS), longest)
    for keys, key in rows:
        parts = (_wrap_text(keys, column), _wrap_text(key.tooltip, width - column - MARGIN))
        for key_line, tooltip_line in zip_longest(*parts, fillvalue=""):
            yield f"  {key_line:<{column}}  ", "bold"
            yield f"{tooltip_line}\n", ""


def _wrap_text(text: str, width: int) -> list[str]:
    return [text[start:end] for start, end in find_line_breaks(text, width)]


class KeyHelpDialog(Dialog[None]):
    """Shows all keys, those of the focused widget first, and searches them."""

    BINDINGS = get_bindings("keyhelp")
    shape = "page keyhelp"

    def __init__(self, keymap: Mapping[str, str], local_scopes: Sequence[str]) -> None:
        super().__init__("Help")
        self._keymap, self._local_scopes = keymap, local_scopes

    def compose_body(self) -> ComposeResult:
        yield SteadyInput(placeholder="type to search", compact=True, select_on_focus=False)
        with VerticalScroll(can_focus=False):
            yield Static(id="keyhelp-text")

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._render_text)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._render_text()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def _render_text(self) -> None:
        if not self.is_mounted:
            return
        width = self.query_one(VerticalScroll).scrollable_content_region.width
        words = self.query_one(Input).value
        self.query_one("#keyhelp-text", Static).update(
            render_keys(self._keymap, max(width, 20), self._local_scopes, words)
        )

    def action_scroll_by(self, rows: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        scroll = self.query_one(VerticalScroll)
        scroll.scroll_relative(y=pages * max(scroll.size.height - 1, 1), animate=False)
