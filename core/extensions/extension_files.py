"""Extension files: the folders that agents of several makers share, and the front matter of the files there.

The project's folders come before the user's own. Within a scope they follow the order of `FOLDERS`, and in a project
the nearer to the workspace the earlier; of two files with the same name the first counts. Nothing of an untrusted
project is read. An unknown key is reported, and one that may restrict rights is never guessed at.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, Protocol, TypeVar

from msgspec import Struct

from core.config.rules.file_text import (
    FrontMatter,
    UnreadableRule,
    decode_rule,
    get_text,
    is_unclosed,
    split_front_matter,
    unquote,
)
from core.config.rules.roots import ProjectRoot, RuleRoot, UserRoot, list_directories_above
from core.errors import PathRefused
from core.patterns import compile_lazily
from core.permissions.trusted_files import FOLDERS, KINDS, TrustCheck, trust_everything
from core.text.similarity import find_nearest_names
from core.workspace import Workspace
from core.workspace.secret_files import may_be_secret

Scope = Literal["project", "user"]
ExtensionKind = Literal["agent", "skill", "command", "snippet", "plugin"]
SKILL_FILE: Final = "SKILL.md"
OWN_FOLDER: Final = "config"  # the name of this program's configuration directory in messages
MAX_FILE_BYTES: Final = 128 * 1024
MAX_DEPTH: Final = 5
MAX_FOLDERS: Final = 2_000  # searched per root
MAX_FILES: Final = 500  # per kind and folder
UNTRUSTED: Final = "it has changed since you trusted this project"
NO_FRONT_END: Final = "its front matter does not end with ---, so none of it counts"
_PLUGIN_FILES: Final = frozenset({SKILL_FILE, "plugin.json", "hooks.json", ".mcp.json"})
_SKIPPED: Final = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
MAX_NAME: Final = 64
# Keys for other programs, which have no effect here.
SILENT_KEYS: Final = frozenset(
    {
        *("version", "tags", "license", "metadata", "author", "authors", "category", "categories", "keywords", "icon"),
        *("color", "title", "homepage", "repository", "compatibility", "created", "updated", "date", "type", "status"),
    }
)
_RESTRICTING: Final = compile_lazily(
    r"tool|permi|read.?only|sandbox|allow|den[iy]|restrict|forbid|access|capabilit", re.I
)
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


class SkippedFile(Struct, frozen=True, kw_only=True):
    """A file that is no valid extension, with the reason."""

    kind: ExtensionKind
    path: str
    scope: Scope
    reason: str


class ExtensionText(Struct, frozen=True, kw_only=True):
    """The text of an extension file. `notes`: what was cut or stripped."""

    front: FrontMatter
    body: str
    notes: tuple[str, ...] = ()


class InvalidExtension(Exception):
    """A file is no valid extension; the message is the reason."""


class ExtensionFolder(Struct, frozen=True, eq=False):
    """One folder with extensions. `path`: from the top of its root; `word`: its name in messages.

    `plugin`: the name of the plug-in that it is, "" = none; `further`: additional paths of files, by kind.
    """

    root: RuleRoot
    path: str
    word: str
    scope: Scope
    is_trusted: TrustCheck = trust_everything
    plugin: str = ""
    further: Mapping[str, tuple[str, ...]] = {}

    def join(self, name: str) -> str:
        """Return a path below the folder, from the top of its root."""
        return posixpath.join(self.path, name)

    def show(self, path: str) -> str:
        """Return a path of its root for the user and the model."""
        return self.root.show(path)

    def qualify(self, name: str) -> str:
        """Return the full name of an extension, with the plug-in's name as prefix."""
        return f"{self.plugin}:{name}" if self.plugin else name

    def read(self, path: str) -> bytes:
        """Read a trusted file. Raises `InvalidExtension`; `PathRefused` if it is missing."""
        data = self.read_unchecked(path)
        if not self.is_trusted(self.show(path), data):
            raise InvalidExtension(UNTRUSTED)
        return data

    def read_unchecked(self, path: str) -> bytes:
        """Read a file without a check of trust, which is up to the caller. Raises the same errors as `read`."""
        display_path = self.show(path)
        if may_be_secret(display_path.rpartition("/")[2]):
            raise InvalidExtension("its name suggests secrets")
        try:
            data = self.root.read(path)
        except PathRefused as refused:
            if refused.code == "not_found":
                raise
            raise InvalidExtension(refused.message.rstrip(".")) from None
        return data

    def read_text(self, path: str) -> ExtensionText:
        """Read a Markdown file with front matter. Raises `InvalidExtension`; `PathRefused` if it is missing."""
        try:
            text, notes = decode_rule(self.read(path), MAX_FILE_BYTES)
        except UnreadableRule as problem:
            raise InvalidExtension(str(problem)) from None
        if is_unclosed(text):
            notes.append(NO_FRONT_END)
        front, body = split_front_matter(text)
        return ExtensionText(front=front, body=body.strip(), notes=tuple(notes))

    def skip(self, kind: ExtensionKind, path: str, reason: Exception | str) -> SkippedFile:
        """Return the record of a file that is no valid extension."""
        return SkippedFile(kind=kind, path=self.show(path), scope=self.scope, reason=str(reason))

    def iter_folders(self, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Iterate over the folders from `path` down, with the names of their files; in a project, links are not
        followed."""
        waiting, folder_count = [(path, 0)], 0
        while waiting and folder_count < MAX_FOLDERS:
            above, depth = waiting.pop(0)
            folder_count += 1
            try:
                names = self.root.list_names(above)
            except PathRefused:
                continue
            below = [f"{above}/{name}" for name, is_folder in names if is_folder and name not in _SKIPPED]
            yield above, tuple(sorted(name for name, is_folder in names if not is_folder))
            if depth < MAX_DEPTH:
                waiting += [(subfolder, depth + 1) for subfolder in sorted(below)]

    def list_files(self, kind: str, suffix: str) -> list[str]:
        """Return the sorted paths of the files of a kind ("agents", "commands") with a suffix."""
        paths = []
        for path in (self.join(kind), *self.further.get(kind, ())):
            if path.endswith(suffix):
                paths.append(path)
            else:
                paths += [f"{above}/{name}" for above, names in self.iter_folders(path) for name in names]
        return sorted({path for path in paths if path.endswith(suffix)})


def list_extension_folders(workspace: Workspace, is_trusted: TrustCheck | None) -> list[ExtensionFolder]:
    """List the folders to search, strongest first. `is_trusted` None: no folder of the project."""
    folders: list[ExtensionFolder] = []
    if is_trusted is not None:
        project_root = ProjectRoot(workspace)
        for directory in reversed(list_directories_above(f"{project_root.here}/x" if project_root.here else "x")):
            paths = [(posixpath.join(directory, name), name) for name in FOLDERS]
            folders += [ExtensionFolder(project_root, path, name, "project", is_trusted) for path, name in paths]
    folders.append(ExtensionFolder(UserRoot(), "", OWN_FOLDER, "user"))
    user_root = UserRoot(Path.home())
    return folders + [ExtensionFolder(user_root, name, name, "user") for name in FOLDERS]


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...


Extension = TypeVar("Extension", bound=_Named)


def collect_extensions(
    kind: ExtensionKind,
    folders: Iterable[ExtensionFolder],
    list_paths: Callable[[ExtensionFolder], list[str]],
    read: Callable[[ExtensionFolder, str], Extension],
) -> tuple[tuple[Extension, ...], tuple[SkippedFile, ...]]:
    """Read all extensions of a kind, strongest first; of several with one name the first counts. Also returns the
    skipped files."""
    extensions: dict[str, Extension] = {}
    skipped_files = []
    for folder in folders:
        paths = list_paths(folder)
        if len(paths) > MAX_FILES:
            skipped_files.append(
                folder.skip(kind, paths[MAX_FILES], f"only the first {MAX_FILES} files of a folder are read")
            )
        for path in paths[:MAX_FILES]:
            try:
                extension = read(folder, path)
                if (first := extensions.setdefault(extension.name, extension)) is not extension:
                    raise InvalidExtension(f"{first.path} is already {extension.name!r}, and takes precedence")
            except InvalidExtension as reason:
                skipped_files.append(folder.skip(kind, path, reason))
            except PathRefused:  # gone meanwhile
                continue
    return tuple(extensions.values()), tuple(skipped_files)


def is_extension_path(path: str) -> bool:
    """True if a workspace-relative path is spelled like that of an extension file."""
    *parts, name = path.split("/")
    kinds = [kind for folder, kind in pairwise(parts) if folder in FOLDERS and kind in KINDS]
    if "plugins" in kinds:
        return name in _PLUGIN_FILES or (name.endswith(".md") and not {"agents", "commands"}.isdisjoint(parts))
    return ("skills" in kinds and name == SKILL_FILE) or (
        name.endswith(".md") and not {"agents", "commands", "snippets"}.isdisjoint(kinds)
    )


def fold_key(key: str) -> str:
    """Return a key in a form that is equal for `maxTurns`, `max_turns` and `max-turns`."""
    return key.lower().replace("-", "").replace("_", "")


def split_known_keys(front: FrontMatter, names: Mapping[str, str]) -> tuple[dict[str, str | list[str]], list[str]]:
    """Return the values of known keys by their name here, and the unknown keys.

    `names`: the name here by the usual spelling; other spellings match as well. Of duplicates the first counts.
    """
    names_by_key = {fold_key(key): name for key, name in names.items()}
    values: dict[str, str | list[str]] = {}
    unknown = []
    for key, value in front.items():
        if (name := names_by_key.get(fold_key(key))) is not None:
            values.setdefault(name, value)
        elif key.lower() not in SILENT_KEYS:
            unknown.append(key)
    return values, unknown


def describe_unknown_key(key: str, known_keys: Iterable[str]) -> str:
    """Return a message about an unknown key, with a suggestion."""
    suggestion = next(iter(find_nearest_names(key, known_keys, limit=1)), "")
    return f"unknown key {key!r}{f': did you mean {suggestion!r}?' if suggestion else ''}"


def read_name(name: str, problems: list[str]) -> str:
    """Return a name that can be written in a prompt. Raises `InvalidExtension`."""
    if name.startswith("-") or ":" in name or len(name) > MAX_NAME:
        requirements = f"at most {MAX_NAME} characters, no colon, no leading -"
        raise InvalidExtension(f"{name[:MAX_NAME]!r} is not a valid name: {requirements}")
    if not re.search(r"[^\w.-]", name):
        return name
    safe_name = re.sub(r"[^\w.-]+", "-", name).strip("-")
    if not safe_name:
        raise InvalidExtension(f"{name!r} is not a valid name")
    problems.append(f"its name {name!r} can't be written in a prompt, so it is called {safe_name!r}")
    return safe_name


def looks_restricting(key: str) -> bool:
    """True if an unknown key may restrict rights."""
    return _RESTRICTING.search(key) is not None


def parse_bool(value: str | list[str]) -> bool | None:
    """Parse true or false as YAML spells them; None = neither."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return True if text in _TRUE else False if text in _FALSE else None


def parse_names(front: FrontMatter, key: str) -> tuple[str, ...]:
    """Parse names from a string "a, b", a flow list "[a, b]" or a list; commas within parentheses do not
    separate."""
    value = front.get(key, "")
    names = []
    for item in value if isinstance(value, list) else [value]:
        text = item.strip()
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        names += [unquote(part) for part in re.split(r",(?![^(]*\))", text)]
    return tuple(dict.fromkeys(filter(None, names)))


def get_line(front: FrontMatter, key: str) -> str:
    """Return the value of a key as one line, "" = none."""
    return " ".join(get_text(front, key).split())
