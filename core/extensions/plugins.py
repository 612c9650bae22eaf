"""Plug-in folders: skills, commands, agents, hooks and MCP servers with a manifest.

A plug-in is a folder below a `plugins/` folder, with `.claude-plugin/plugin.json` or `.cursor-plugin/plugin.json` in
it. Its extensions are called `plugin:name`. Paths in a manifest can't lead out of the plug-in.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from core.errors import PathRefused
from core.extensions.extension_files import (
    ExtensionFolder,
    InvalidExtension,
    Scope,
    SkippedFile,
    collect_extensions,
    list_extension_folders,
)
from core.patterns import compile_lazily
from core.permissions.trusted_files import TrustCheck
from core.records import decode_json
from core.workspace import Workspace

MANIFESTS: Final = (".claude-plugin/plugin.json", ".cursor-plugin/plugin.json")
_KINDS: Final = ("agents", "commands", "skills")
_NAME: Final = compile_lazily(r"[A-Za-z0-9][\w.-]{0,63}")
SourceKind = Literal["hooks", "mcp"]
# The key of the manifest, and the file that is read in addition to the named ones.
_SOURCES: Final[tuple[tuple[SourceKind, str, str], ...]] = (
    ("hooks", "hooks", "hooks/hooks.json"),
    ("mcp", "mcpServers", ".mcp.json"),
)


class PluginSource(Struct, frozen=True, kw_only=True):
    """Hooks or MCP servers of a plug-in as undecoded JSON. Hooks are read without a check of trust, because that also
    depends on their scripts.

    `path`: their file, with `#hooks` for hooks in a manifest; `directory`: the plug-in's, for `${CLAUDE_PLUGIN_ROOT}`.
    """

    plugin: str
    kind: SourceKind
    path: str
    directory: str
    scope: Scope
    data: bytes


class Plugin(Struct, frozen=True, kw_only=True):
    """A plug-in. `folder`: the folder of its skills, commands and agents."""

    name: str
    description: str
    version: str
    path: str
    scope: Scope
    folder: ExtensionFolder
    sources: tuple[PluginSource, ...] = ()
    problems: tuple[str, ...] = ()


class Plugins(Struct, frozen=True, kw_only=True):
    """The plug-ins, and the skipped folders with reasons."""

    plugins: tuple[Plugin, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


class ExtensionFolders(Struct, frozen=True, kw_only=True):
    """The folders to search, strongest first and those of plug-ins last, and the plug-ins."""

    folders: tuple[ExtensionFolder, ...]
    plugins: Plugins


def find_extension_folders(workspace: Workspace, is_trusted: TrustCheck | None) -> ExtensionFolders:
    """Find the folders of extensions on disk; pending changes of an agent do not count.

    `is_trusted` checks every file of the project before it is interpreted; None: no file of the project is read.
    """
    folders = list_extension_folders(workspace, is_trusted)
    plugins = load_plugins(folders)
    return ExtensionFolders(folders=(*folders, *(plugin.folder for plugin in plugins.plugins)), plugins=plugins)


def load_plugins(folders: Iterable[ExtensionFolder]) -> Plugins:
    """Load the plug-ins below these folders, strongest first."""
    plugins, skipped_files = collect_extensions("plugin", folders, _list_plugin_folders, _read_plugin)
    return Plugins(plugins=plugins, skipped=skipped_files)


def _list_plugin_folders(folder: ExtensionFolder) -> list[str]:
    try:
        names = folder.root.list_names(folder.join("plugins"))
    except PathRefused:
        return []
    return [folder.join(f"plugins/{name}") for name, is_folder in sorted(names) if is_folder and name[:1] != "."]


def _read_plugin(folder: ExtensionFolder, path: str) -> Plugin:
    manifest, file = _read_manifest(folder, path)
    name = manifest.get("name") or path.rpartition("/")[2]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidExtension(f"{str(name)[:64]!r} is not a valid plug-in name: letters, digits, hyphens and dots")
    problems: list[str] = []
    extra_paths = {}
    for kind in _KINDS:
        paths = _list_paths(manifest.get(kind), f"`{kind}`", problems)
        extra_paths[kind] = tuple(posixpath.join(path, relative_path) for relative_path in paths)
    plugin_folder = ExtensionFolder(folder.root, path, folder.word, folder.scope, folder.is_trusted, name, extra_paths)
    sources = tuple(_read_sources(plugin_folder, manifest, file, problems))
    return Plugin(
        name=name,
        description=_get_text(manifest, "description"),
        version=_get_text(manifest, "version"),
        path=folder.show(path),
        scope=folder.scope,
        folder=plugin_folder,
        sources=sources,
        problems=tuple(problems),
    )


def _read_manifest(folder: ExtensionFolder, path: str) -> tuple[dict[str, Any], str]:
    for name in MANIFESTS:
        file = f"{path}/{name}"
        try:
            manifest = decode_json(folder.read(file))
        except PathRefused:
            continue
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidExtension(f"{name} is not JSON: {error}") from None
        if not isinstance(manifest, dict):
            raise InvalidExtension(f"{name} is not an object")
        return manifest, file
    raise InvalidExtension(f"it has neither {' nor '.join(MANIFESTS)}")


def _get_text(manifest: dict[str, Any], key: str) -> str:
    value = manifest.get(key, "")
    return " ".join(value.split()) if isinstance(value, str) else ""


def _list_paths(value: object, name: str, problems: list[str]) -> list[str]:
    """List the paths that a manifest names, relative to the plug-in; one that leads out of it is a problem."""
    paths = []
    for entry in value if isinstance(value, list) else [] if value is None else [value]:
        plain = posixpath.normpath(entry) if isinstance(entry, str) and entry.strip() else ""
        if not plain or plain == ".." or plain.startswith(("/", "~", "../")):
            problems.append(f"{name} names {str(entry)[:80]!r}, which is not a path inside the plug-in")
        else:
            paths.append(plain)
    return paths


def _read_sources(
    plugin_folder: ExtensionFolder, manifest: dict[str, Any], file: str, problems: list[str]
) -> Iterator[PluginSource]:
    """Read the hooks and MCP servers, from files and from the manifest itself."""
    for kind, key, default in _SOURCES:
        value = manifest.get(key)
        contents: list[tuple[str, bytes]] = []
        if isinstance(value, dict):
            display_path = f"{file}#hooks" if kind == "hooks" else file
            contents.append((display_path, msgspec.json.encode({key: value.get(key, value)})))
            value = None
        for name in dict.fromkeys([default, *_list_paths(value, f"`{key}`", problems)]):
            path = plugin_folder.join(name)
            try:
                contents.append(
                    (path, plugin_folder.read_unchecked(path) if kind == "hooks" else plugin_folder.read(path))
                )
            except InvalidExtension as reason:
                problems.append(f"{name} is not read: {reason}")
            except PathRefused:
                if name != default:
                    problems.append(f"{name} does not exist")
        for path, data in contents:
            yield PluginSource(
                plugin=plugin_folder.plugin,
                kind=kind,
                path=plugin_folder.show(path),
                directory=plugin_folder.show(plugin_folder.path),
                scope=plugin_folder.scope,
                data=data,
            )
