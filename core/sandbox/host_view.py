"""The part of the host that a command may see, for every tier: environment variables, paths and toolchains.

Variables are an allow-list, so that keys never reach commands. A toolchain in a home is not visible as a whole, since
its directory also holds credentials, settings with tokens and clones of repositories. So its parts are allowed by name,
and credentials among them (a global `npmrc`, a `pip.conf`) are recognized by name and hidden.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from core.clock import monotonic
from core.filesystem.mount_table import read_mount_sources, read_mounts
from core.patterns import compile_lazily
from core.search_paths import restore_user_paths
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
    "bin": ("",),
    "go": ("bin", "pkg/mod/*", "pkg/mod/cache/download"),
    "mambaforge": _CONDA,
    "miniconda3": _CONDA,
    "miniforge3": _CONDA,
    "n": ("bin", "lib"),
}
TOOLCHAINS = tuple(sorted(f"{home}/{part}".rstrip("/") for home, parts in _PARTS.items() for part in parts))
_LEFT_OUT = frozenset({"auth.ini", "cache", "download-cache", "log", "rc", "repo"})  # among the matches of a pattern
# Names of credentials, searched to a depth of `_DEPTH` below every bound path.
_CREDENTIAL_NAMES = frozenset(
    {
        *("npmrc", ".npmrc", "pip.conf", ".condarc", "condarc", ".pypirc", ".netrc", ".git-credentials", ".git"),
        *("credentials", "credentials.json", "credentials.toml", "auth.json", "auth.toml", "gemrc", ".gemrc"),
        *("FETCH_HEAD", "nuget.config", "x509stores", "settings.xml", ".yarnrc.yml"),
    }
)
_NOT_SEARCHED = frozenset({"node_modules", "site-packages", "share", "include", "pkgs", "registry", "repository"})
_CARGO_CHECKOUTS = "/.cargo/git/checkouts"  # cargo follows their `.git` to the clone
_DEPTH, _CACHE_SECONDS = 4, 60.0  # directories below a bound path; seconds
# Root could read these in the box as well; for others they are not readable anyway.
MASKED_FILES = (
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/var/lib/sss/secrets",
    "/var/spool/cron",
    "/var/mail",
    "/var/spool/mail",
)
_HOST_KEYS = "/etc/ssh"
_SETTINGS_DIRECTORIES = ("/etc", "/opt", "/srv", "/usr/local/etc", "/var/backups", "/var/lib/private", "/var/spool")
_MOST_ENTRIES = 20_000
_FIRST_USER_ID = 1000
INHERITED_VARIABLES = (
    *("HOME", "LANG", "LANGUAGE", "LOGNAME", "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
    *("EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
)
FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_update_notifier": "false",
    "npm_config_fund": "false",
    "NO_COLOR": "1",
}
# Without a granted host every attempt is refused, and trying again only takes time.
NO_RETRIES = {
    "CARGO_NET_RETRY": "0",
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "npm_config_fetch_retries": "0",
}
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_SECRET_VALUE = compile_lazily(r"\b(?:sk-[A-Za-z0-9_-]{12}|gh[pousr]_[A-Za-z0-9]{20}|AKIA[A-Z0-9]{16}|xox[baprs]-)")

_WINDOWS_TYPES = frozenset({b"9p", b"drvfs", b"virtiofs"})
_MARKER_FILES = (".dockerenv", "run/.containerenv")
_CGROUP_WORDS = ("docker", "kubepods", "containerd", "libpod", "lxc")
_MARKER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "CI")
NO_CONTAINER = "this machine does not look like a container or a runner of CI."

_SHARED = {Path("/usr"), Path("/bin"), Path("/var"), Path("/tmp"), Path("/dev"), Path("/etc"), Path("/opt")}


def find_container_signs(env: Mapping[str, str], root: Path = Path("/"), proc: Path = Path("/proc")) -> tuple[str, ...]:
    """Return what shows that this machine is a container or a runner of CI; () = it looks like somebody's computer.

    Docker and Podman leave a file, Kubernetes a variable; the control group of process 1 names the runtime.
    """
    signs = [f"/{name}" for name in _MARKER_FILES if (root / name).exists()]
    with suppress(OSError):
        group = (proc / "1/cgroup").read_text(encoding="utf-8", errors="replace")
        signs += [f"{word} in /proc/1/cgroup" for word in _CGROUP_WORDS if word in group]
    return (*signs, *(name for name in _MARKER_VARIABLES if env.get(name, "") not in {"", "0", "false"}))


def find_home(env: Mapping[str, str]) -> Path:
    """Return the home of the command; a root directory as home (some containers) is replaced."""
    path = Path(env.get("HOME", ""))
    if path.is_absolute() and path != Path("/"):
        return path
    return Path("/tmp/home")


def find_toolchains(env: Mapping[str, str]) -> list[Path]:
    """Return existing toolchains of the home in HOME and of the one in the user database."""
    homes = {find_home(env)}
    with suppress(KeyError):
        homes.add(Path(pwd.getpwuid(os.getuid()).pw_dir))
    paths = [Path(path) for home in sorted(homes) for path in list_home_toolchains(str(home))]
    environment = Path(env.get("VIRTUAL_ENV", ""))
    if environment.is_absolute() and (environment / "pyvenv.cfg").is_file():
        paths.append(environment)
    return paths


@cache
def list_masked() -> tuple[Path, ...]:
    """Return files and directories of the system that hold secrets, and people's homes. The result is cached."""
    keys = [Path(_HOST_KEYS, name) for name in list_names(_HOST_KEYS) if name.endswith("_key")]
    return (*(path for path in map(Path, MASKED_FILES) if path.exists()), *keys, *_list_user_homes())


def list_foreign_mounts(protected: Iterable[Path], opened: Iterable[Path]) -> list[Path]:
    """Return the mounts that show the `protected` paths once more, under other names (WSL mounts the whole system at
    /mnt/wslg/distro), and the drives of Windows. Where an `opened` path is below such a mount, its parts are listed."""
    try:
        mounts, sources = read_mounts(), read_mount_sources()
    except OSError:
        return []
    opened_paths = [os.fsencode(os.path.realpath(path)) + b"/" for path in opened]
    hidden_paths = {point for point, kind in mounts if point.startswith(b"/mnt/") and kind in _WINDOWS_TYPES}
    for path in (os.fsencode(os.path.realpath(protected_path)) for protected_path in protected):
        own_point, own_device, own_root = max(
            (source for source in sources if _is_below(path, source[0])), key=lambda source: len(source[0])
        )
        inner_path = own_root.rstrip(b"/") + path[len(own_point.rstrip(b"/")) :]
        for point, device, root in sources:
            if point == own_point or device != own_device or not _is_below(inner_path, root):
                continue
            is_open = any(opened_path.startswith(point.rstrip(b"/") + b"/") for opened_path in opened_paths)
            hidden_paths.add(point + inner_path[len(root.rstrip(b"/")) :] if is_open else point)
    return [Path(os.fsdecode(path)) for path in sorted(hidden_paths)]


def _is_below(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


def is_open_to_all(path: str | Path) -> bool:
    """True if every user may pass through a directory, or run a program, and everything above it."""
    real = Path(os.path.realpath(path))
    return all(above.stat().st_mode & stat.S_IXOTH for above in (real, *real.parents))


def list_private_paths() -> list[Path]:
    """Return paths that only root can read in the directories that hold services' settings.

    A directory with too many entries is returned as a whole.
    """
    return [path for top in _SETTINGS_DIRECTORIES for path in _list_private_below(top)]


def _list_private_below(top: str) -> list[Path]:
    paths: list[Path] = []
    waiting, budget = [top], _MOST_ENTRIES
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                path_modes = [(entry.path, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
        except OSError:
            continue
        budget -= len(path_modes)
        if budget < 0:
            return [Path(top)]
        waiting += [path for path, mode in path_modes if stat.S_ISDIR(mode) and mode & stat.S_IXOTH]
        paths += [Path(path) for path, mode in path_modes if stat.S_ISDIR(mode) and not mode & stat.S_IXOTH]
        paths += [Path(path) for path, mode in path_modes if stat.S_ISREG(mode) and not mode & stat.S_IROTH]
    return paths


def _list_user_homes() -> list[Path]:
    """Return homes from the local user database; directory services are not asked. Homes of services hold no
    secrets."""
    homes = []
    try:
        lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        fields = line.split(":")
        if len(fields) == 7 and fields[2].isdigit() and (int(fields[2]) >= _FIRST_USER_ID or fields[2] == "0"):
            homes.append(Path(fields[5]))
    return [path for path in homes if len(path.parts) > 1 and path.is_dir() and path not in _SHARED]


def list_names(directory: str | Path) -> list[str]:
    """Return the names in a directory; none if it can't be listed."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def build_environment(source: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `source` that a command may see, with the absolute directories of the user's own
    PATH: in a box it may lead into the project."""
    source = restore_user_paths(source)
    allowed_variables = {
        name: value for name, value in source.items() if name in INHERITED_VARIABLES or name.startswith("LC_")
    }
    safe = {name: value for name, value in allowed_variables.items() if not _SECRET_VALUE.search(value)}
    entries = [entry for entry in source.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    return safe | FIXED | {"PATH": os.pathsep.join(entries) or SYSTEM_PATH}


def list_home_toolchains(home: str) -> list[str]:
    """Return the toolchains that exist in a home."""
    return [path for part in TOOLCHAINS for path in _expand(f"{home}/{part}")]


def _expand(path: str) -> Iterable[str]:
    if not any(character in path for character in "*["):
        return [path] if os.path.lexists(path) else []
    above = Path(path).parent
    try:
        matches = sorted(map(str, above.glob(Path(path).name)))
    except OSError:  # a home that can't be read has no toolchains
        return []
    return [match for match in matches if Path(match).name not in _LEFT_OUT]


def find_credentials(toolchains: Iterable[Path]) -> tuple[Path, ...]:
    """Return credentials in toolchains, which must not be read. The search runs at most once a minute."""
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


@lru_cache(maxsize=16_384)  # most names recur in every version of a toolchain
def _is_credential(name: str) -> bool:
    """True for names of secrets that are hardly ever anything else."""
    if name in _CREDENTIAL_NAMES or name.lower() in _CREDENTIAL_NAMES:
        return True
    return may_be_secret(name) and is_secret(name, lambda _path, _is_dir: False)
