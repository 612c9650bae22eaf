"""Keys as they are bound: those of the table, and what the user made of them.

`get_bindings(scope)` is what a widget declares; `App.set_keymap({id: keys})` changes keys by id.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, cast

from textual.binding import Binding, BindingType

from tui.key_scopes import SCOPE_TITLES
from tui.key_table import KEYS, Key

_KEY_SIGNS: Final = {"full_stop": ".", "escape": "esc", "up": "↑", "down": "↓", "left": "←", "right": "→", "slash": "/"}


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
    """Return the part of a user's keymap that speaks of keys that there are."""
    known_names = {key.id for key in KEYS}
    return {name: keys for name, keys in keymap.items() if name in known_names and keys.strip()}


def group_by_scope() -> dict[str, list[Key]]:
    """Return the keys of each scope, in the order of `SCOPE_TITLES`."""
    return {scope: [key for key in KEYS if key.scope == scope] for scope in SCOPE_TITLES}
