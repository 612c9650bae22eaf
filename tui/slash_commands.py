"""The slash commands of the prompt, and the command palette.

Both come from one table; a command is an action of the main screen, so a key can be given to it too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from tui.keymap import KEYS, SCOPE_TITLES, format_keys

PALETTE_SCOPES: Final = (
    "app",
    "prompt",
    "transcript",
    "review",
    "changes",
    "files",
    "plan",
    "debug",
    "approval",
    "question",
)

_COMMAND_WORD: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_-]*)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`/word argument`: runs the action of the main screen with the text behind the word. `argument` describes that
    text."""

    word: str
    action: str
    label: str
    argument: str = ""


SLASH_COMMANDS: Final[tuple[SlashCommand, ...]] = (
    SlashCommand("help", "show_help", "What can be done, and how"),
    SlashCommand("mode", "choose_mode", "Switch the mode", "agent | plan | ask | debug"),
    SlashCommand("model", "choose_model", "Choose the model", "provider/name"),
    SlashCommand("effort", "choose_effort", "How much the model thinks", "low | medium | high | … | default"),
    SlashCommand("models", "show_models", "Which model does what, and what it has cost"),
    SlashCommand("limits", "change_limits", "What a turn may use: see, change", "steps N | cost DOLLARS | tokens N"),
    SlashCommand("policy", "choose_policy", "Who decides on commands", "auto | confirm | human"),
    SlashCommand("login", "paste_key", "Paste a key…", "provider"),
    SlashCommand("new", "new_session", "Start a new session"),
    SlashCommand("sessions", "choose_session", "Go on with another session"),
    SlashCommand("resume", "choose_session", "Go on with another session", "id"),
    SlashCommand("compact", "compact", "Make the history shorter"),
    SlashCommand("context", "show_context", "What the model is sent, by part"),
    SlashCommand("history", "load_history", "Load the older answers of a long session"),
    SlashCommand("rewind", "rewind", "Go back to an earlier prompt: files, conversation or both"),
    SlashCommand("fork", "fork_session", "Go on in a second session with all of this one"),
    SlashCommand("jobs", "show_jobs", "Commands in the background: see, stop", "id, or all"),
    SlashCommand("reset_shell", "reset_shell", "Commands start in the workspace again"),
    SlashCommand("permissions", "show_permissions", "What is allowed and refused; forget it", "remove ID"),
    SlashCommand("accept", "accept_all", "Accept pending changes", "path, or all"),
    SlashCommand("reject", "reject_all", "Reject pending changes", "path, or all"),
    SlashCommand("undo", "undo_verdict", "Take the last verdict back"),
    SlashCommand("comments", "send_comments", "Look at your comments and send them"),
    SlashCommand("plan", "open_plan", "Show the plan"),
    SlashCommand("plans", "choose_plan", "Choose another plan of the project", "FILE"),
    SlashCommand("build", "build_plan", "Work the plan", "parallel [N] | fresh | TODO | FILE"),
    SlashCommand("theme", "choose_theme", "Choose the colours", "name"),
    SlashCommand("keys", "show_keys", "All keys"),
    SlashCommand("quit", "quit", "Leave"),
)


def parse_slash_command(text: str) -> tuple[SlashCommand, str] | None:
    """Parse a prompt as `(command, argument)`; None when it is not one of ours."""
    if not text.startswith("/") or "\n" in text.strip():
        return None
    word, _, argument = text[1:].strip().partition(" ")
    found = next((each for each in SLASH_COMMANDS if each.word == word), None)
    return (found, argument.strip()) if found else None


def describe_unknown_command(text: str) -> str:
    """Explain why a line that looks like a command is none, with the nearest ones; "" = it is a prompt.

    A path is a prompt, and so is what begins with a space.
    """
    found = _COMMAND_WORD.match(text)
    if found is None or "\n" in text.strip() or parse_slash_command(text) or os.path.lexists(found.group()):
        return ""
    import difflib

    near = difflib.get_close_matches(found.group(1).lower(), [each.word for each in SLASH_COMMANDS], n=3, cutoff=0.6)
    meant = f"Did you mean {' or '.join(f'/{word}' for word in near)}?" if near else "/help lists the commands."
    return f"{found.group()} is no command. {meant} To send it as it is, put a space before it."


def find_completions(pattern: str) -> list[tuple[str, str]]:
    """Return `(word, explanation)` of the commands that begin with `pattern`."""
    return [
        (each.word, f"{each.label}{f'  ({each.argument})' if each.argument else ''}")
        for each in SLASH_COMMANDS
        if each.word.startswith(pattern)
    ]


def can_run_as_is(typed: str, word: str) -> bool:
    """True if a completed command can run as it is: it takes no argument, or it was written out."""
    return typed.strip() == f"/{word}" or any(each.word == word and not each.argument for each in SLASH_COMMANDS)


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """One line of the palette. `scope` names the place where `action` is done."""

    label: str
    shortcut: str
    note: str
    scope: str
    action: str


def list_palette_entries(keymap: Mapping[str, str]) -> list[PaletteEntry]:
    """Return every command: those with a key in the order of the keys, then those of the prompt. Dialogs have none."""
    found: list[PaletteEntry] = []
    for key in KEYS:
        if key.scope in PALETTE_SCOPES:
            place = "" if key.scope == "app" else f"{SCOPE_TITLES[key.scope]}: "
            how = format_keys(keymap.get(key.id, key.keys))
            found.append(PaletteEntry(f"{place}{key.label}", how, key.tooltip, key.scope, key.action))
    for slash in SLASH_COMMANDS:
        found.append(PaletteEntry(slash.label, f"/{slash.word}", slash.argument, "app", f"{slash.action}('')"))
    return found


class CommandProvider(Provider):
    """All commands and keys, searched by name."""

    def _list_entries(self) -> list[PaletteEntry]:
        return list_palette_entries(getattr(self.app, "keymap", {}))

    def _build_runner(self, entry: PaletteEntry) -> Callable[[], Awaitable[None]]:
        screen = cast("Any", self.screen)

        async def run() -> None:
            await screen.run_scoped_action(entry.scope, entry.action)

        return run

    async def discover(self) -> Hits:
        for entry in self._list_entries():
            yield DiscoveryHit(
                _format_entry(entry.label, entry), self._build_runner(entry), text=entry.label, help=entry.note
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for entry in self._list_entries():
            text = f"{entry.label} {entry.shortcut} {entry.note}"
            if (score := matcher.match(text)) > 0:
                line = _format_entry(matcher.highlight(entry.label), entry)
                yield Hit(score, line, self._build_runner(entry), text=entry.label, help=entry.note)


def _format_entry(label: str | Content, entry: PaletteEntry) -> Content:
    return Content.assemble(label, "  ", (entry.shortcut, "$accent"))
