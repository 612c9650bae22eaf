"""Bindings from the key table and the user's keymap, and the titles of the scopes.

`get_bindings(scope)` is what a widget declares; `App.set_keymap({id: keys})` changes keys by id.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, cast

from textual.binding import Binding, BindingType

from tui.key_table import KEYS, Key

# Letters that only move a cursor: they act at once, and the next letters distinguish them from a sentence.
CURSOR_KEYS: Final = frozenset(
    f"{scope}.{name}"
    for scope, names in {
        "transcript": "previous next top bottom",
        "code": "top bottom",
        "review": "next previous next_file previous_file mark_down mark_up",
        "conflict": "next previous",
        "comments": "down up",
        "context": "down up",
        "rules": "down up",
        "hooks": "down up",
        "skills": "down up",
        "servers": "down up",
        "kinds": "down up",
        "tools": "down up",
        "permissions": "down up",
        "memory": "down up",
        "agents": "down up",
        "background": "down up",
        "findings": "down up page_down page_up",
        "compared": "down up",
        "rewind": "down up",
        "consent": "down up",
        "cursor": "down up mark_down mark_up next_name previous_name",
        "patch": "next_file previous_file",
        "hits": "down up",
        "todos": "down up top bottom",
        "plantext": "down up mark_down mark_up top bottom",
        "approval": "down up",
        "keyhelp": "down up page_down page_up",
        "home": "below above",
        "jobs": "down up",
        "ports": "down up",
        "queue": "down up",
    }.items()
    for name in names.split()
)
SCOPE_TITLES: Final = {
    "app": "Everywhere",
    "prompt": "Prompt",
    "context": "Context",
    "rules": "List of rules",
    "settings": "List of settings",
    "hooks": "List of hooks",
    "skills": "List of skills",
    "servers": "List of MCP servers",
    "kinds": "List of subagents",
    "tools": "List of tools",
    "permissions": "List of permissions",
    "memory": "Project notes",
    "chips": "Attached to the prompt",
    "transcript": "Conversation",
    "code": "Text pane",
    "lines": "Long lines of a file or a change",
    "review": "Review",
    "changes": "List of changes",
    "editor": "Hunk editor",
    "reason": "Reason or comment",
    "conflict": "Conflict",
    "comments": "Comments",
    "commit": "Commit",
    "pull_request": "Pull request",
    "patch": "Patch",
    "aside": "Side question",
    "rewind": "Rewind",
    "picture": "Picture",
    "files": "Files",
    "preview": "File preview",
    "cursor": "File cursor",
    "search": "Search",
    "hits": "Search results",
    "find": "Find a file",
    "plan": "Plan",
    "todos": "Plan todos",
    "plantext": "Plan text",
    "planeditor": "Plan editor",
    "findings": "Findings",
    "debug": "Debug board",
    "agents": "Subagents",
    "background": "Background agents",
    "subagent": "Subagent conversation",
    "best": "Candidates",
    "compared": "Hunks of a candidate",
    "approval": "Approval",
    "question": "Question",
    "picker": "List",
    "sessions": "Sessions",
    "home": "Recent sessions",
    "jobs": "Background commands",
    "ports": "Ports",
    "queue": "Queued messages",
    "welcome": "Welcome",
    "address": "Model server address",
    "key": "API key",
    "confirm": "Confirm",
    "consent": "Confirm a change",
    "page": "Page",
    "keyhelp": "Help",
}
_KEY_SIGNS: Final = {
    "full_stop": ".",
    "slash": "/",
    "semicolon": ";",
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
}


def format_keys(keys: str) -> str:
    """Format comma-separated keys for people, with spaces between them."""
    return re.sub(r"[a-z_]+", lambda name: _KEY_SIGNS.get(name.group(), name.group()), keys).replace(",", " ")


def format_first_key(name: str, keymap: Mapping[str, str]) -> str:
    """Format the first key of a binding, by id, for people."""
    keys = keymap.get(name) or next(key.keys for key in KEYS if key.id == name)
    return format_keys(keys.partition(",")[0])


def get_keymap(app: object) -> Mapping[str, str]:
    """Return the keys that the user of an app has changed, by id."""
    return cast("Mapping[str, str]", getattr(app, "keymap", {}))


def insert_keys(text: str, keymap: Mapping[str, str]) -> str:
    """Replace the id of a key in braces (`{review.accept} accepts`) by the first key that does it."""
    return re.sub(r"\{(\w+\.\w+)\}", lambda match: format_first_key(match[1], keymap), text)


def get_bindings(*scopes: str, priority: bool = False, names: Collection[str] = ()) -> list[BindingType]:
    """Return the bindings of scopes, for a class's `BINDINGS`. `priority`: before the widget's own keys; `names`: only
    those with these ids."""
    return [
        Binding(key.keys, key.action, key.label, False, None, priority or key.has_priority, key.tooltip, key.id)
        for key in KEYS
        if key.scope in scopes and (not names or key.id in names)
    ]


def select_known_keys(keymap: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a user's keymap with known keys."""
    known_names = {key.id for key in KEYS}
    return {name: keys for name, keys in keymap.items() if name in known_names and keys.strip()}


def group_by_scope() -> dict[str, list[Key]]:
    """Return the keys of every scope, in the order of `SCOPE_TITLES`."""
    return {scope: [key for key in KEYS if key.scope == scope] for scope in SCOPE_TITLES}
