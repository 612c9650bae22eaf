"""The parts of toolchains in a home that commands need: programs, and never what a tool keeps beside them.

A tool's own directory is not bound as a whole: credentials, settings with tokens and clones of repositories lie there
too. What tools put among the programs (a global `npmrc`, a `pip.conf`) is found by its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path

from core.clock import monotonic
from core.workspace.secret_files import is_secret, may_be_secret

_VERSIONS = ("bin", "completions", "libexec", "plugins", "shims", "version", "versions")
_CONDA = ("bin", "condabin", "conda-meta", "envs", "etc", "include", "lib", "libexec", "share", "ssl")
_PARTS: dict[str, tuple[str, ...]] = {
    ".asdf": ("asdf.sh", "bin", "completions", "installs", "lib", "libexec", "plugins", "shims"),
    ".bun": ("bin",),
    ".cargo": ("bin", "env", "git/checkouts", "git/db", "registry"),
    ".deno": ("bin",),
    ".dotnet": ("dotnet", "host", "library-packs", "metadata", "packs", "sdk", "sdk-manifests", "shared", "templates"),
    ".dotnet/tools": ("",),
    ".fnm": ("aliases", "fnm", "node-versions"),
    ".ghcup": ("bin", "ghc"),
    ".jenv": _VERSIONS,
    ".juliaup": ("bin", "julia-*", "juliaup.json"),
    ".local": ("bin", "lib"),
    ".local/share/fnm": ("aliases", "node-versions"),
    ".local/share/mise": ("installs", "plugins", "shims"),
    ".local/share/pipx": ("py", "shared", "venvs"),
    ".local/share/pnpm": ("[a-zA-Z]*",),
    ".local/share/pypoetry": ("venv",),
    ".local/share/rtx": ("installs", "plugins", "shims"),
    ".local/share/uv": ("python", "tools"),
    ".local/share/virtualenvs": ("",),
    ".m2": ("repository",),
    ".nodenv": _VERSIONS,
    ".npm-global": ("bin", "lib"),
    ".nvm": ("alias", "bash_completion", "nvm-exec", "nvm.sh", "versions"),
    ".opam": ("[a-z0-9]*",),
    ".pyenv": (*_VERSIONS, "pyenv.d"),
    ".rbenv": (*_VERSIONS, "rbenv.d"),
    ".rustup": ("settings.toml", "toolchains"),
    ".rvm": ("bin", "environments", "gems", "lib", "rubies", "scripts", "wrappers"),
    ".sdkman": ("bin", "candidates", "libexec", "src"),
    ".virtualenvs": ("",),
    ".volta": ("bin", "tools"),
    "anaconda3": _CONDA,
    "go": ("bin", "pkg/mod/*", "pkg/mod/cache/download"),
    "mambaforge": _CONDA,
    "miniconda3": _CONDA,
    "miniforge3": _CONDA,
    "n": ("bin", "lib"),
}
TOOLCHAINS = tuple(sorted(f"{home}/{part}".rstrip("/") for home, parts in _PARTS.items() for part in parts))
_LEFT_OUT = frozenset({"auth.ini", "cache", "download-cache", "log", "rc", "repo"})  # of what a pattern matches

# Told by their names, in what is bound and not far below it.
_CREDENTIAL_NAMES = frozenset(
    {
        *("npmrc", ".npmrc", "pip.conf", ".condarc", "condarc", ".pypirc", ".netrc", ".git-credentials", ".git"),
        *("credentials", "credentials.json", "credentials.toml", "auth.json", "auth.toml", "gemrc", ".gemrc"),
        *("FETCH_HEAD", "nuget.config", "x509stores", "settings.xml", ".yarnrc.yml"),
    }
)
_NOT_SEARCHED = frozenset({"node_modules", "site-packages", "share", "include", "pkgs", "registry", "repository"})
_CARGO_CHECKOUTS = "/.cargo/git/checkouts"  # their `.git` names the clone beside them, and cargo asks it
_DEPTH, _CACHE_SECONDS = 4, 60.0  # directories below what is bound; seconds


def list_home_toolchains(home: str) -> list[str]:
    """Return the toolchains that exist in a home."""
    return [path for part in TOOLCHAINS for path in _expand(f"{home}/{part}")]


def _expand(path: str) -> Iterable[str]:
    if not any(character in path for character in "*["):
        return [path] if os.path.lexists(path) else []
    above = Path(path).parent
    matches = sorted(map(str, above.glob(Path(path).name)))
    return [match for match in matches if Path(match).name not in _LEFT_OUT]


def find_credentials(toolchains: Iterable[Path]) -> tuple[Path, ...]:
    """Return what must not be read in toolchains. Looked up at most once a minute."""
    return _find_credentials(tuple(toolchains), int(monotonic() // _CACHE_SECONDS))


@cache
def _find_credentials(toolchains: tuple[Path, ...], _minute: int) -> tuple[Path, ...]:
    _find_credentials.cache_clear()
    return tuple(Path(path) for top in toolchains for path in _walk_credentials(os.fspath(top)))


def _walk_credentials(top: str) -> Iterator[str]:
    waiting = [(top, 0)] if not top.endswith(_CARGO_CHECKOUTS) else []
    while waiting:
        directory, depth = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                children = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        for name, is_dir in children:
            if _is_credential(name):
                yield f"{directory}/{name}"
            elif is_dir and depth < _DEPTH and name not in _NOT_SEARCHED:
                waiting.append((f"{directory}/{name}", depth + 1))


@lru_cache(maxsize=16_384)  # most names are there in every version of a toolchain
def _is_credential(name: str) -> bool:
    """True for names of secrets that are hardly ever anything else."""
    if name in _CREDENTIAL_NAMES or name.lower() in _CREDENTIAL_NAMES:
        return True
    return may_be_secret(name) and is_secret(name, lambda _path, _is_dir: False)
