"""The files that define hooks, and the scripts that the commands of hooks start.

Hook files are those of the project, once it is trusted, and the user's own. They are read from the disk, never from the
shadow: a hook that an agent proposes or removes has no effect before the user accepts it. Trust compares the hooks of a
file and the scripts that they start, so a permission that another program adds to its settings asks no question.

An interpreter whose script is missing often ends with the very exit code that refuses, so one missing file would block
every tool. `find_script` detects that before anything runs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.errors import PathRefused
from core.extensions.extension_files import Scope, list_extension_folders
from core.extensions.plugins import load_plugins
from core.filesystem.open_files import read_regular_file
from core.hooks.dialect_names import Dialect
from core.hooks.parsing import Hook, HookFile, HookOwner, HookProblem, parse_hook_file
from core.patterns import compile_lazily
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.user_dirs import get_config_dir
from core.workspace import Workspace

_PREFIXES: Final = frozenset({"exec", "command", "time", "nohup", "env", "uv", "poetry", "pipx", "npx", "bunx", "run"})
_INTERPRETER: Final = compile_lazily(r"(?:bash|sh|zsh|dash|node|deno|bun|python[\d.]*|ruby|perl|php|tsx)")
_WORD: Final = compile_lazily(r"[^\s'\"=;|&<>()`]+")
HOOKS_FOLDER: Final = "hooks"  # all files in a folder of this name count as parts of its scripts
MISSING: Final = "its script does not exist"
MAX_FILES: Final = 100  # script files per hook
MAX_WORDS: Final = 200  # words of a command that may be paths
_ASSIGNMENT: Final = compile_lazily(r"[A-Za-z_]\w*=")
_VARIABLE: Final = compile_lazily(
    r"\$\{?(CLAUDE_PROJECT_DIR|CURSOR_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|CURSOR_PLUGIN_ROOT|HOME|PWD)(?::-[^}]*)?\}?"
)
_SHELL_SIGNS: Final = frozenset({";", "&&", "||", "|", "&", "", "{", "}", "<", ">"})
MAX_FILE: Final = 1 << 20  # bytes of a hook file
MAX_SCRIPT: Final = 4 << 20  # bytes of a script for the comparison
# Of two hooks that disagree, the stricter one wins; of two that change the same, the first in this order.
PROJECT_HOOK_FILES: Final[Sequence[tuple[str, Dialect]]] = (
    (".agent-tui/hooks.json", "own"),
    (".cursor/hooks.json", "cursor"),
    (".claude/settings.local.json", "claude"),
    (".claude/settings.json", "claude"),
)
HOOK_PATHS: Final = tuple(path for path, _ in PROJECT_HOOK_FILES)
MAX_DESCRIBED: Final = 40


class HookSource(Struct, frozen=True, kw_only=True):
    """A hook file outside of the project: the user's own, or one of the user's plug-ins."""

    path: Path
    owner: HookOwner


class HookTable(Struct, frozen=True, kw_only=True):
    """All hooks. `hooks`: those that run; `held`: untrusted ones of the project, which do not."""

    hooks: tuple[Hook, ...] = ()
    held: tuple[Hook, ...] = ()
    problems: tuple[HookProblem, ...] = ()


def load_hooks(workspace: Workspace, check: TrustCheck | None) -> HookTable:
    """Load the hooks of a project and of its user. `check` tests whether a file's hooks are trusted; None = no file of
    the project is. Errors in the files are not fatal."""
    hooks: list[Hook] = []
    untrusted_hooks: list[Hook] = []
    problems: list[HookProblem] = []
    for path, hook_file in iterate_project_files(workspace):
        is_trusted = not hook_file.hooks or (check is not None and check(path, render_for_trust(hook_file, workspace)))
        (hooks if is_trusted else untrusted_hooks).extend(hook_file.hooks)
        problems += hook_file.problems
    plugins = (hook_file for _, hook_file in _iterate_plugin_files(workspace, "user"))
    for hook_file in (*map(_read_source, list_user_sources()), *plugins):
        hooks += hook_file.hooks
        problems += hook_file.problems
    for hook in hooks:
        if (missing := explain_missing(hook, workspace.root)) is not None:
            problems.append(HookProblem(source=hook.source, message=f"{hook.describe()}: {missing}"))
    return HookTable(hooks=tuple(hooks), held=tuple(untrusted_hooks), problems=tuple(problems))


def list_user_sources() -> tuple[HookSource, ...]:
    """Return the user's own hook files, whether or not they exist."""
    home = Path.home()
    sources: tuple[tuple[Path, Dialect, str], ...] = (
        (get_config_dir() / "hooks.json", "own", ""),
        (home / ".cursor/hooks.json", "cursor", str(home / ".cursor")),
        (home / ".claude/settings.json", "claude", ""),
    )
    return tuple(
        HookSource(path=path, owner=HookOwner(dialect=dialect, scope="user", source=_show(path), home=base))
        for path, dialect, base in sources
    )


def _iterate_plugin_files(workspace: Workspace, scope: Scope) -> Iterator[tuple[str, HookFile]]:
    """Iterate over the hook files of the plug-ins of a project, or of its user. A plug-in of the project never replaces
    one of the user's of the same name."""
    folders = [folder for folder in list_extension_folders(workspace, trust_everything) if folder.scope == scope]
    for plugin in load_plugins(folders).plugins:
        for source in plugin.sources:
            if source.kind == "hooks":
                dialect: Dialect = "cursor" if b'"version"' in source.data else "claude"
                home = str(workspace.root / Path(source.directory).expanduser())
                owner = HookOwner(dialect=dialect, scope="plugin", source=source.path, home=home)
                yield source.path, _parse(source.data, owner)


def _show(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def iterate_project_files(workspace: Workspace) -> Iterator[tuple[str, HookFile]]:
    """Iterate over the project's existing hook files on the disk, those of its plug-ins last."""
    for path, dialect in PROJECT_HOOK_FILES:
        if (hook_file := read_project_file(workspace, path, dialect)) is not None:
            yield path, hook_file
    yield from _iterate_plugin_files(workspace, "project")


def is_hook_path(path: str, workspace: Workspace) -> bool:
    """True if this file defines hooks of the project. Reads manifests of plug-ins for a path in a plug-in folder."""
    if path in HOOK_PATHS:
        return True
    is_near = "/plugins/" in f"/{path}"
    return is_near and any(path == hook_path for hook_path, _ in _iterate_plugin_files(workspace, "project"))


def read_project_file(workspace: Workspace, path: str, dialect: Dialect) -> HookFile | None:
    """Read one hook file of the project; None = it is missing."""
    try:
        data = workspace.read_bytes(path, MAX_FILE + 1)
    except PathRefused as refused:
        if refused.code == "not_found":
            return None
        return HookFile(problems=(HookProblem(source=path, message=f"not read: {refused.message}"),))
    return _parse(data, HookOwner(dialect=dialect, scope="project", source=path))


def _read_source(source: HookSource) -> HookFile:
    source_name = source.owner.source
    try:
        data = read_regular_file(source.path, MAX_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return HookFile()
    except OSError as error:
        return HookFile(problems=(HookProblem(source=source_name, message=f"not read: {error.strerror}."),))
    return _parse(data, source.owner)


def _parse(data: bytes, owner: HookOwner) -> HookFile:
    if len(data) > MAX_FILE:
        problem = HookProblem(source=owner.source, message="not read: it is larger than 1 MiB.")
        return HookFile(problems=(problem,))
    return parse_hook_file(data, owner)


def render_for_trust(file: HookFile, workspace: Workspace) -> bytes:
    """Return the trusted content of a file as bytes: its hooks, and digests of the project's scripts that they
    start."""
    lines = []
    for hook in file.hooks:
        suffix = " (fails closed)" if hook.fails_closed else ""
        lines.append(f"{hook.describe()}{suffix} {_hash_scripts(hook, workspace)}".rstrip())
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _hash_scripts(hook: Hook, workspace: Workspace) -> str:
    digests = []
    for script in list_script_files(hook, workspace.root):
        try:
            data = workspace.read_bytes(script.relative_to(workspace.root).as_posix(), MAX_SCRIPT)
        except PathRefused:  # removed meanwhile, or a link that leads out of the project
            continue
        digests.append(hashlib.sha256(data).hexdigest())
    return " ".join(digests)


def describe_hooks(files: Iterable[HookFile]) -> tuple[str, ...]:
    """Return one line per hook, for the question of trust."""
    lines = [hook.describe() for file in files for hook in file.hooks]
    remaining_count = len(lines) - MAX_DESCRIBED
    return (*lines[:MAX_DESCRIBED], *((f"and {remaining_count} more",) if remaining_count > 0 else ()))


def describe_changed_hooks(before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return lines on added (+) and removed (-) hooks, or on all hooks of a file if only its scripts have changed
    (~)."""
    descriptions: list[str] = []
    for path, lines in now.items():
        previous_lines = before.get(path, ())
        changes = [
            *(f"- {line}" for line in previous_lines if line not in lines),
            *(f"+ {line}" for line in lines if line not in previous_lines),
        ]
        descriptions += changes or [f"~ {line}" for line in lines]
    return tuple(descriptions[:MAX_DESCRIBED])


def find_script(hook: Hook, root: Path) -> Path | None:
    """Find the file that a hook's command starts, by its words alone; None = it is a program, or unknown.

    The file may be missing.
    """
    words = list(_iterate_words(hook.command))
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _PREFIXES):
        words.pop(0)
    if not words:
        return None
    name = words[0].rpartition("/")[2]
    if _INTERPRETER.fullmatch(name):
        words = words[1:] if words[1:2] != ["run"] else words[2:]
        if words and words[0].startswith("-"):  # an option such as -c: the script is in the command itself
            return None
    if not words or not _is_path(words[0]):
        return None
    return _locate(words[0], hook, root)


def _is_path(word: str) -> bool:
    return "/" in word and not word.startswith("-") and "://" not in word and not any(sign in word for sign in "*?`\n")


def _iterate_words(command: str) -> Iterator[str]:
    """Iterate over the words of the first simple command; none if it can't be split."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        for word in lexer:
            if word in _SHELL_SIGNS or set(word) <= set("();<>|&"):
                return
            yield word
    except ValueError:
        return


def _locate(word: str, hook: Hook, root: Path) -> Path | None:
    values = {"HOME": str(Path.home()), "CLAUDE_PLUGIN_ROOT": hook.home, "CURSOR_PLUGIN_ROOT": hook.home}

    def expand(match: re.Match[str]) -> str:
        return values.get(match[1], str(root))

    path = _VARIABLE.sub(expand, word)
    if "$" in path:
        return None
    if path.startswith("~/"):
        path = str(Path.home() / path[2:])
    return Path(os.path.normpath(Path(hook.directory or root) / path))


def list_script_files(hook: Hook, root: Path) -> tuple[Path, ...]:
    """Return the files of the project in a hook's command, and the other files in their folder of hooks.

    They are trusted together with the hook. A superfluous file causes an unnecessary question, a missing one would let
    a guard be changed unnoticed. Reads directories.
    """
    files: dict[Path, None] = {}
    for path in _iterate_named_paths(hook, root):
        if path in files or not path.is_relative_to(root) or not _is_file(path):
            continue
        files[path] = None
        if HOOKS_FOLDER in path.relative_to(root).parts[:-1]:
            folder = next(parent for parent in path.parents if parent.name == HOOKS_FOLDER)
            below = (file for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
            files |= dict.fromkeys(islice(below, MAX_FILES))
    return tuple(files)[:MAX_FILES]


def _iterate_named_paths(hook: Hook, root: Path) -> Iterator[Path]:
    """Iterate over the possible paths in a command, after any quotes, variables or substitutions, and over those below
    a folder in it."""
    words = _list_possible_words(hook.command)
    folders = [root, *([Path(hook.home)] if hook.home else [])]
    for word in words:
        if (path := _locate(word, hook, root)) is not None:
            yield path
            folders += [path] if path.is_relative_to(root) and _is_directory(path) else []
    for folder in dict.fromkeys(folders):
        for word in words:
            tail = word.partition("/")[2] if word.startswith(("/", "$")) else word
            yield Path(os.path.normpath(folder / tail.lstrip("/")))


def _list_possible_words(command: str) -> list[str]:
    """List the possible words of a command in a shell: split at its operators, without quotes, or with blanks in
    them."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    plain = command.replace("'", "").replace('"', "")
    return list(dict.fromkeys((*_WORD.findall(command), *_WORD.findall(plain), *words)))[:MAX_WORDS]


def _is_file(path: Path) -> bool:
    """True if the path is a file; a word that is too long for a name, such as an inline script, is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def explain_missing(hook: Hook, root: Path) -> str | None:
    """Explain that a hook's script is missing; None: it exists, or is unknown."""
    script = find_script(hook, root)
    if script is None or _is_file(script):
        return None
    return f"{MISSING}: {script.relative_to(root) if script.is_relative_to(root) else script}"
