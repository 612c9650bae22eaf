"""The commands that have no key or more than one way to be reached: `/words` in the prompt, and the palette.

Both come from one table; a command is a method `action_<name>` of the main screen, so a key can be given to it too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from tui.keymap import KEYS, PLACES, shown

REACHED: Final = ("app", "prompt", "transcript", "review", "changes", "files", "plan", "debug", "approval", "question")

_WORD: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_-]*)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Slash:
    """`/word argument`: calls `action(argument)` of the main screen. `takes` names the argument in the list."""

    word: str
    action: str
    label: str
    takes: str = ""


SLASHES: Final[tuple[Slash, ...]] = (
    Slash("help", "show_help", "What can be done, and how"),
    Slash("mode", "choose_mode", "Switch the mode", "agent | plan | ask | debug"),
    Slash("model", "choose_model", "Choose the model", "provider/name"),
    Slash("effort", "choose_effort", "How much the model thinks", "low | medium | high | … | default"),
    Slash("models", "show_models", "Which model does what, and what it has cost"),
    Slash("limits", "change_limits", "What a turn may use: see, change", "steps N | cost DOLLARS | tokens N"),
    Slash("policy", "choose_policy", "Who decides on commands", "auto | confirm | human"),
    Slash("login", "paste_key", "Paste a key…", "provider"),
    Slash("new", "new_session", "Start a new session"),
    Slash("sessions", "sessions", "Go on with another session"),
    Slash("resume", "sessions", "Go on with another session", "id"),
    Slash("compact", "compact", "Make the history shorter"),
    Slash("context", "show_context", "What the model is sent, by part"),
    Slash("history", "load_history", "Load the older answers of a long session"),
    Slash("rewind", "rewind", "Go back to an earlier prompt: files, conversation or both"),
    Slash("fork", "fork", "Go on in a second session with all of this one"),
    Slash("jobs", "jobs", "Commands in the background: see, stop", "id, or all"),
    Slash("reset_shell", "reset_shell", "Commands start in the workspace again"),
    Slash("permissions", "permissions", "What is allowed and refused; forget it", "remove ID"),
    Slash("accept", "accept_all", "Accept pending changes", "path, or all"),
    Slash("reject", "reject_all", "Reject pending changes", "path, or all"),
    Slash("undo", "undo_verdict", "Take the last verdict back"),
    Slash("comments", "send_comments", "Look at your comments and send them"),
    Slash("plan", "open_plan", "Show the plan"),
    Slash("plans", "choose_plan", "Choose another plan of the project", "FILE"),
    Slash("build", "build_plan", "Work the plan", "parallel [N] | fresh | TODO | FILE"),
    Slash("theme", "choose_theme", "Choose the colours", "name"),
    Slash("keys", "show_keys", "All keys"),
    Slash("quit", "quit_now", "Leave"),
)


def parsed(text: str) -> tuple[Slash, str] | None:
    """The command that a prompt is, and its argument; None when it is not one of ours."""
    if not text.startswith("/") or "\n" in text.strip():
        return None
    word, _, argument = text[1:].strip().partition(" ")
    found = next((each for each in SLASHES if each.word == word), None)
    return (found, argument.strip()) if found else None


def unknown(text: str) -> str:
    """Why a line that looks like a command is none, with the nearest ones; "" = it is a prompt.

    A path is a prompt, and so is what begins with a space.
    """
    found = _WORD.match(text)
    if found is None or "\n" in text.strip() or parsed(text) or os.path.lexists(found.group()):
        return ""
    import difflib

    near = difflib.get_close_matches(found.group(1).lower(), [each.word for each in SLASHES], n=3, cutoff=0.6)
    meant = f"Did you mean {' or '.join(f'/{word}' for word in near)}?" if near else "/help lists the commands."
    return f"{found.group()} is no command. {meant} To send it as it is, put a space before it."


def completions(pattern: str) -> list[tuple[str, str]]:
    """`(word, explanation)` of the commands that begin with `pattern`."""
    return [
        (each.word, f"{each.label}{f'  ({each.takes})' if each.takes else ''}")
        for each in SLASHES
        if each.word.startswith(pattern)
    ]


def is_complete(typed: str, word: str) -> bool:
    """Whether a completed command can run as it is: it takes nothing more, or it was written out."""
    return typed.strip() == f"/{word}" or any(each.word == word and not each.takes for each in SLASHES)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the palette. `scope` names the place where `action` is done."""

    label: str
    how: str
    note: str
    scope: str
    action: str


def entries(keymap: Mapping[str, str]) -> list[Entry]:
    """Every command: those with a key in the order of the keys, then those of the prompt. Dialogs have none."""
    found: list[Entry] = []
    for key in KEYS:
        if key.scope in REACHED:
            place = "" if key.scope == "app" else f"{PLACES[key.scope]}: "
            how = shown(keymap.get(key.id, key.keys))
            found.append(Entry(f"{place}{key.label}", how, key.tooltip, key.scope, key.action))
    for slash in SLASHES:
        found.append(Entry(slash.label, f"/{slash.word}", slash.takes, "app", f"{slash.action}('')"))
    return found


class Palette(Provider):
    """All commands and keys, by name."""

    def _entries(self) -> list[Entry]:
        return entries(getattr(self.app, "keymap", {}))

    def _runner(self, entry: Entry) -> Callable[[], Awaitable[None]]:
        screen = cast("Any", self.screen)

        async def run() -> None:
            await screen.perform(entry.scope, entry.action)

        return run

    async def discover(self) -> Hits:
        for entry in self._entries():
            yield DiscoveryHit(_line(entry.label, entry), self._runner(entry), text=entry.label, help=entry.note)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for entry in self._entries():
            text = f"{entry.label} {entry.how} {entry.note}"
            if (score := matcher.match(text)) > 0:
                line = _line(matcher.highlight(entry.label), entry)
                yield Hit(score, line, self._runner(entry), text=entry.label, help=entry.note)


def _line(label: str | Content, entry: Entry) -> Content:
    return Content.assemble(label, "  ", (entry.how, "$accent"))
