"""From which places of a project git takes what it runs or obeys, beside those that are named so by themselves.

Hooks may lie behind a link in `.git/hooks` or where `core.hooksPath` says; a configuration may include files of the
project, and name programs of it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.git.places import Places, find, read_small
from core.git.room import GitFailed, Room, at_hand, configured, own_text
from core.git.settings import Pairs
from core.git.short_lived import short_lived
from core.workspace.lever_names import GIT, HOOK

_PROGRAM = "is run by git itself: its configuration names it"
_RUN_BY_ITSELF = re.compile(
    r"core\.(?:fsmonitor|sshcommand|askpass|editor|pager|gitproxy|alternaterefscommand)|sequence\.editor|diff\.external"
    r"|pager\..*|credential\.helper|.*\.(?:clean|smudge|process|textconv|command|driver|program|cmd|helper|uploadpack"
    r"|receivepack)",
    re.DOTALL,
)
_INCLUDE = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
_FILES = 10  # that are followed by includes
_LINKS = 200


def reached(root: Path) -> dict[str, str]:
    """Files and directories below `root` ("." is the root itself), with what is said of a change there."""
    places = find(root)
    if places is None:
        return {}
    found = dict.fromkeys(_below(root, _linked_hooks(places)), HOOK)
    try:
        with short_lived() as directory:
            users, own, included = _settings(Room(at_hand(root), directory, root), places)
    except (GitFailed, OSError):
        return found
    named = (root / Path(value).expanduser() for key, value in (*users, *own) if key == "core.hookspath" and value)
    found |= dict.fromkeys(_below(root, named), HOOK)
    found |= dict.fromkeys(_below(root, included), GIT)
    programs = (word for key, value in own if value and _RUN_BY_ITSELF.fullmatch(key) for word in _words(value))
    at = [(root / word) for word in programs if "/" in word or (root / word).is_file()]
    return dict.fromkeys((each for each in _below(root, at) if each != "."), _PROGRAM) | found


def _linked_hooks(places: Places) -> Iterator[Path]:
    hooks = places.common / "hooks"
    if hooks.is_symlink():
        yield hooks
    try:
        yield from [each for each in sorted(hooks.iterdir()) if each.is_symlink()][:_LINKS]
    except OSError:
        return


def _settings(made: Room, places: Places) -> tuple[Pairs, Pairs, list[Path]]:
    """The settings of the user; those of the repository with what they include, and the files that these are."""
    users, own = configured(made, own_text(places))
    included = list(dict.fromkeys(_included(own, places.common)))
    for file in included:  # grows meanwhile
        try:
            _, more = configured(made, read_small(file.resolve()))
        except OSError:
            continue
        own = [*own, *more]
        known = len(included)
        included += [each for each in _included(more, file.parent) if each not in included][: max(0, _FILES - known)]
    return users, own, included


def _included(pairs: Pairs, directory: Path) -> Iterator[Path]:
    for key, value in pairs:
        if value and _INCLUDE.fullmatch(key):
            yield directory / Path(value).expanduser()


def _words(value: str) -> list[str]:
    try:
        return [each.lstrip("!") for each in shlex.split(value)]
    except ValueError:
        return [each.strip("!'\"") for each in value.split()]


def _below(root: Path, paths: Iterable[Path]) -> list[str]:
    """Where these are really, and by which names they are called, as far as that is in the project."""
    ways = [way for each in paths for way in (os.path.realpath(each), os.path.normpath(each)) if "\0" not in str(each)]
    found = (os.path.relpath(way, root) for way in ways)
    return sorted({each for each in found if each.split("/")[0] not in {"..", ".git"}})
