"""The check of the screen's own settings: which themes, keys and actions there are, the engine does not know."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tui.key_table import KEYS, Key
from tui.keymap import SCOPE_TITLES

Doubt = tuple[tuple[str, ...], str, str]  # key of the setting, error, remedy

_MODIFIERS: Final = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})


def check_interface(
    theme: str, keymap: Mapping[str, str], *, syntax: str = "", themes: Path | None = None
) -> Iterator[Doubt]:
    """Iterate over the errors of the `ui` settings. `themes`: the directory of the user's themes, whose errors are
    included."""
    if theme or (themes is not None and themes.is_dir()):
        yield from _check_theme(theme, themes)
    if syntax:
        from tui.themes.building import read_pygments_style

        if read_pygments_style(syntax) is None:
            yield ("ui", "syntax"), f"Pygments has no style {syntax!r}", "Such as monokai, nord or friendly."
    ids = {known_key.id for known_key in KEYS}
    for name, keys in keymap.items():
        if name not in ids:
            suggestions = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
            hint = f"Did you mean {' or '.join(suggestions)}?" if suggestions else "agent-tui help keys lists the ids."
            yield ("ui", "keymap", name), "unknown key id", hint
        for key in _split(keys):
            if not is_key(key):
                yield ("ui", "keymap", name), f"no key is called {key!r}", "Such as a, f5, ctrl+s, shift+tab, pageup."
    yield from _find_clashes(keymap)


def _check_theme(theme: str, directory: Path | None) -> Iterator[Doubt]:
    from textual.theme import BUILTIN_THEMES

    from tui.themes.building import FAMILIES, build_themes, read_theme_files

    base_themes = {**BUILTIN_THEMES, **{family_theme.name: family_theme for family_theme in build_themes()}}
    theme_files = read_theme_files(directory, base_themes) if directory is not None else None
    for problem in theme_files.problems if theme_files is not None else ():
        yield ("ui", "theme"), problem.rstrip("."), "agent-tui help settings describes themes."
    names = sorted(
        {
            *FAMILIES,
            *base_themes,
            *(own_theme.name for own_theme in (theme_files.themes if theme_files is not None else ())),
        }
    )
    if theme and theme not in names:
        suggestions = difflib.get_close_matches(theme, names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(suggestions)}? " if suggestions else ""
        yield ("ui", "theme"), f"no theme {theme!r}", f"{hint}Valid: {', '.join(names)}."


def is_key(name: str) -> bool:
    """True if a terminal can send a key of this name: a letter, a sign by its name, a key of Textual's."""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys

    *modifiers, key = name.split("+") if name != "+" else ["+"]
    if not set(modifiers) <= _MODIFIERS:
        return False
    if len(key) == 1 or key in {*(known_key.value for known_key in Keys), *KEY_NAME_REPLACEMENTS.values()}:
        return True
    try:
        unicodedata.lookup(key.replace("_", " "))
    except KeyError:
        return False
    return True


def _find_clashes(keymap: Mapping[str, str]) -> Iterator[Doubt]:
    """Iterate over keys that are bound to two actions of one scope, or that shadow a global key."""
    keys_by_id = {key.id: _split(keymap.get(key.id) or key.keys) for key in KEYS}
    reported_pairs: set[frozenset[str]] = set()
    for own_key in (key for key in KEYS if key.id in keymap):
        for other in KEYS:
            pair = frozenset((own_key.id, other.id))
            both = sorted({*keys_by_id[own_key.id]} & {*keys_by_id[other.id]})
            if len(pair) < 2 or pair in reported_pairs or not both or not _share_scope(own_key, other):
                continue
            reported_pairs.add(pair)
            does = f"{', '.join(both)} is also the key of {other.id} ({other.label.rstrip('…')})"
            reason = f"{does}; in “{SCOPE_TITLES[own_key.scope]}” one of them wins"
            yield ("ui", "keymap", own_key.id), reason, f'Give one of them another key: "{other.id}" = "…".'


def _share_scope(own_key: Key, other: Key) -> bool:
    return own_key.scope == other.scope or any(key.scope == "app" and key.has_priority for key in (own_key, other))


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]
