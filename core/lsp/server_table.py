"""The known language servers, the user's configuration of them, and their location on this machine.

A server is searched in the project's environments (`.venv/bin`, `venv/bin`, `node_modules/.bin`) next to the file and
above, then on PATH. None is downloaded.
"""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.config.settings import ServerSettings
from core.records import parse_json

PROGRAM_DIRECTORIES: Final = (".venv/bin", "venv/bin", "node_modules/.bin")
_PYTHON: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_SCRIPTS: Final = ("typescript", "tsx", "javascript", "jsx")


class ServerSpec(Struct, frozen=True, kw_only=True):
    """A server. `roots`: files that mark its root directory. Only one server of a `group` runs per language.

    `marks`: files that select it for the project; `mark_words`: words in shared files that do so, by file name.
    `options` are sent at initialization; `bare_options` replace them if the project does not configure the server.
    `is_linter`: its diagnostics of a file do not depend on other files.
    """

    name: str
    command: tuple[str, ...]
    languages: tuple[str, ...]
    roots: tuple[str, ...] = ()
    group: str = ""
    marks: tuple[str, ...] = ()
    mark_words: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    bare_options: Mapping[str, Any] = field(default_factory=dict)
    is_linter: bool = False
    is_native_typescript: bool = False


KNOWN: Final[tuple[ServerSpec, ...]] = (
    ServerSpec(
        name="ty",
        command=("ty", "server"),
        languages=("python",),
        roots=("ty.toml", *_PYTHON),
        group="python",
        marks=("ty.toml",),
        mark_words={"pyproject.toml": "[tool.ty"},
    ),
    *(
        ServerSpec(
            name=name,
            command=(f"{name}-langserver", "--stdio"),
            languages=("python",),
            roots=("pyrightconfig.json", *_PYTHON),
            group="python",
            marks=("pyrightconfig.json",),
            mark_words={"pyproject.toml": f"[tool.{name}"},
        )
        for name in ("basedpyright", "pyright")
    ),
    ServerSpec(
        name="ruff",
        command=("ruff", "server"),
        languages=("python",),
        roots=("ruff.toml", ".ruff.toml", *_PYTHON),
        marks=("ruff.toml", ".ruff.toml"),
        mark_words={"pyproject.toml": "[tool.ruff"},
        bare_options={"settings": {"lint": {"select": ["E9", "F"]}}},
        is_linter=True,
    ),
    ServerSpec(
        name="typescript",
        command=("tsc", "--lsp", "--stdio"),
        languages=_SCRIPTS,
        roots=("tsconfig.json", "jsconfig.json", "package.json"),
        group="typescript",
        is_native_typescript=True,
    ),
    ServerSpec(
        name="typescript-language-server",
        command=("typescript-language-server", "--stdio"),
        languages=_SCRIPTS,
        roots=("tsconfig.json", "jsconfig.json", "package.json"),
        group="typescript",
    ),
    ServerSpec(name="gopls", command=("gopls",), languages=("go",), roots=("go.work", "go.mod")),
    ServerSpec(
        name="rust-analyzer",
        command=("rust-analyzer",),
        languages=("rust",),
        roots=("Cargo.toml",),
        options={"checkOnSave": False, "cargo": {"buildScripts": {"enable": False}}},
    ),
    ServerSpec(
        name="clangd",
        command=("clangd", "--background-index=false"),
        languages=("c", "cpp"),
        roots=("compile_commands.json", "compile_flags.txt", ".clangd"),
    ),
)


class LocatedServer(Struct, frozen=True, kw_only=True):
    """A server to start: `program` is the path of its executable, `directory` its root."""

    spec: ServerSpec
    program: str
    directory: str

    @property
    def key(self) -> tuple[str, str]:
        return self.spec.name, self.directory


def configure_servers(settings_by_name: Mapping[str, ServerSettings]) -> tuple[ServerSpec, ...]:
    """Return the user's servers, then the known ones; without those that are switched off."""
    user_specs = [
        _apply_settings(name, next((spec for spec in KNOWN if spec.name == name), None), settings)
        for name, settings in settings_by_name.items()
        if settings.enabled
    ]
    default_specs = [spec for spec in KNOWN if spec.name not in settings_by_name]
    return (*(spec for spec in user_specs if spec.command and spec.languages), *default_specs)


def _apply_settings(name: str, base_spec: ServerSpec | None, settings: ServerSettings) -> ServerSpec:
    spec = base_spec or ServerSpec(name=name, command=(), languages=())
    overrides = {
        key: getattr(settings, key) for key in ("command", "languages", "roots", "settings") if getattr(settings, key)
    }
    return replace(spec, **overrides)


class ServerFinder(Struct, frozen=True, kw_only=True):
    """The finder of the servers of a file. `read(path)`: the first bytes of a project file, None = there is none."""

    root: str
    specs: tuple[ServerSpec, ...]
    read: Callable[[str], bytes | None]
    exists: Callable[[str], bool]
    search_path: str

    def find_servers(self, path: str, language: str) -> Iterator[LocatedServer]:
        """Yield the servers to run for a file: all of its language, but only the first of a group."""
        taken_groups: set[str] = set()
        specs = [candidate for candidate in self.specs if language in candidate.languages]
        for spec in sorted(specs, key=lambda candidate: not (candidate.group and self.is_configured(candidate, path))):
            if spec.group in taken_groups:
                continue
            program = self.find_program(spec, path)
            if program:
                taken_groups |= {spec.group} if spec.group else set()
                yield LocatedServer(
                    spec=self._complete(spec, path), program=program, directory=self._find_root(spec, path)
                )

    def find_program(self, spec: ServerSpec, path: str = "") -> str:
        """Return the absolute path of a server's program; "" = it is not installed."""
        name = spec.command[0]
        if "/" in name:
            return name if name.startswith("/") and Path(name).exists() else ""
        above = [str(parent) for parent in PurePosixPath(path or ".").parents] or ["."]
        candidates = (
            posixpath.normpath(f"{directory}/{bin_directory}/{name}")
            for directory in above
            for bin_directory in PROGRAM_DIRECTORIES
        )
        local_program = next((f"{self.root}/{candidate}" for candidate in candidates if self.exists(candidate)), "")
        program = local_program or shutil.which(name, path=self.search_path) or ""
        return program if not spec.is_native_typescript or self._is_native_typescript(program) else ""

    def is_configured(self, spec: ServerSpec, path: str) -> bool:
        """True if a file in a directory of the path configures the server."""
        for above in PurePosixPath(path).parents:
            if any(self.exists(str(above / mark)) for mark in spec.marks):
                return True
            if any(words.encode() in (self.read(str(above / name)) or b"") for name, words in spec.mark_words.items()):
                return True
        return False

    def _complete(self, spec: ServerSpec, path: str) -> ServerSpec:
        is_bare = spec.bare_options and not spec.options and not self.is_configured(spec, path)
        return replace(spec, options=spec.bare_options) if is_bare else spec

    def _find_root(self, spec: ServerSpec, path: str) -> str:
        for above in PurePosixPath(path).parents:
            if any(self.exists(str(above / name)) for name in spec.roots):
                return str(above)
        return "."

    def _is_native_typescript(self, program: str) -> bool:
        """True for TypeScript 7 or later, which is a language server itself."""
        if not program:
            return False
        inside = program.removeprefix(f"{self.root}/")
        if inside != program:
            data = self.read(posixpath.normpath(f"{inside}/../../typescript/package.json"))
        else:
            package = Path(program).resolve().parent.parent / "package.json"
            data = package.read_bytes() if package.is_file() else None
        try:
            manifest: Any = parse_json(data or b"{}")
            return int(str(manifest.get("version", "0")).split(".")[0]) >= 7
        except (ValueError, AttributeError, RecursionError):
            return False
