"""The files that hooks stand in, and what is read of them: the project's, once it is trusted, and the user's own.

They are read from the disk, never from the shadow: a hook that an agent proposes, or takes away, binds nobody before
the user accepts it. What is compared with what was trusted are the hooks of a file and the scripts that they start: a
permission that another program adds to its settings is no question here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.errors import PathRefused
from core.extensions.extension_files import Scope, list_extension_folders
from core.extensions.plugins import load_plugins
from core.filesystem.regular_file import read_regular_file
from core.hooks.events import Dialect
from core.hooks.parsing import Hook, HookFile, HookOwner, HookProblem, parse_hook_file
from core.hooks.scripts import explain_missing, list_script_files
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.user_dirs import get_config_dir
from core.workspace import Workspace

MAX_FILE: Final = 1 << 20  # bytes of a hook file
MAX_SCRIPT: Final = 4 << 20  # bytes of a script that are compared
# Of two hooks that disagree, the stricter one wins; of two that change something, the one that stands first here.
PROJECT_HOOK_FILES: Final[Sequence[tuple[str, Dialect]]] = (
    (".agent-tui/hooks.json", "own"),
    (".cursor/hooks.json", "cursor"),
    (".claude/settings.local.json", "claude"),
    (".claude/settings.json", "claude"),
)

HOOK_PATHS: Final = tuple(path for path, _ in PROJECT_HOOK_FILES)
MAX_DESCRIBED: Final = 40


class HookSource(Struct, frozen=True, kw_only=True):
    """A hook file to be read from outside of the project: the user's own, or that of a plug-in of theirs."""

    path: Path
    owner: HookOwner


class HookTable(Struct, frozen=True, kw_only=True):
    """All hooks. `hooks`: those that run; `held`: those of the project that do not, as nobody trusts them (yet)."""

    hooks: tuple[Hook, ...] = ()
    held: tuple[Hook, ...] = ()
    problems: tuple[HookProblem, ...] = ()


def load_hooks(workspace: Workspace, check: TrustCheck | None) -> HookTable:
    """Load the hooks of a project and of its user. `check`: whether a file's hooks are trusted; None = none of the
    project is. Nothing in them is fatal."""
    hooks: list[Hook] = []
    untrusted_hooks: list[Hook] = []
    problems: list[HookProblem] = []
    for path, hook_file in iterate_project_files(workspace):
        is_heard = not hook_file.hooks or (check is not None and check(path, render_for_trust(hook_file, workspace)))
        (hooks if is_heard else untrusted_hooks).extend(hook_file.hooks)
        problems += hook_file.problems
    plugins = (hook_file for _, hook_file in _iterate_plugin_files(workspace, "user"))
    for hook_file in (*map(_read_source, list_user_sources()), *plugins):
        hooks += hook_file.hooks
        problems += hook_file.problems
    for hook in hooks:
        if missing := explain_missing(hook, workspace.root):
            problems.append(HookProblem(source=hook.source, message=f"{hook.describe()}: {missing}"))
    return HookTable(hooks=tuple(hooks), held=tuple(untrusted_hooks), problems=tuple(problems))


def list_user_sources() -> tuple[HookSource, ...]:
    """Return the user's own hook files, whether or not they are there."""
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
    """Iterate over the hook files of the plug-ins of a project, or of its user. One of the project hides none of the
    user's, whatever its name."""
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
    """Iterate over the project's hook files that are there, those of its plug-ins last, as they are on the disk."""
    for path, dialect in PROJECT_HOOK_FILES:
        if (hook_file := read_project_file(workspace, path, dialect)) is not None:
            yield path, hook_file
    yield from _iterate_plugin_files(workspace, "project")


def is_hook_path(path: str, workspace: Workspace) -> bool:
    """True if the project's hooks stand in this file. Reads the manifests of plug-ins for a path among them."""
    if path in HOOK_PATHS:
        return True
    is_near = "/plugins/" in f"/{path}"
    return is_near and any(path == hook_path for hook_path, _ in _iterate_plugin_files(workspace, "project"))


def read_project_file(workspace: Workspace, path: str, dialect: Dialect) -> HookFile | None:
    """Read one hook file of the project; None = it is not there."""
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
        problem = HookProblem(source=owner.source, message="not read: it has more than 1 MiB.")
        return HookFile(problems=(problem,))
    return parse_hook_file(data, owner)


def render_for_trust(file: HookFile, workspace: Workspace) -> bytes:
    """Return what the user's trust in a file is about, as bytes: its hooks, and the scripts of the project that they
    start as they are now."""
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
        except PathRefused:  # gone meanwhile, or a link that leads out of the project
            continue
        digests.append(hashlib.sha256(data).hexdigest())
    return " ".join(digests)


def describe_hooks(files: Iterable[HookFile]) -> tuple[str, ...]:
    """Return a line for each hook, for the user who is to trust them."""
    lines = [hook.describe() for file in files for hook in file.hooks]
    remaining_count = len(lines) - MAX_DESCRIBED
    return (*lines[:MAX_DESCRIBED], *((f"and {remaining_count} more",) if remaining_count > 0 else ()))


def describe_changed_hooks(before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return a line for each hook that is new (+) or gone (-) in these files, or for all of a file whose scripts alone
    have changed (~)."""
    descriptions: list[str] = []
    for path, lines in now.items():
        previous_lines = before.get(path, ())
        changes = [
            *(f"- {line}" for line in previous_lines if line not in lines),
            *(f"+ {line}" for line in lines if line not in previous_lines),
        ]
        descriptions += changes or [f"~ {line}" for line in lines]
    return tuple(descriptions[:MAX_DESCRIBED])
