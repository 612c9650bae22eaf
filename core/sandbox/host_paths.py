"""The paths of the host that a command may see, and those that do not exist for it, for every tier (SAFETY D24, D25).

Toolchains are allowed by name and part (`toolchains`), so that nothing beside them comes along.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from core.sandbox.toolchains import list_home_toolchains

# Of the system. Root could read them in the box as well; for others they are not readable anyway.
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


def find_home(env: Mapping[str, str]) -> Path:
    """Return the home that the command is given; a root directory as home (some containers) is replaced."""
    path = Path(env.get("HOME", ""))
    if path.is_absolute() and path != Path("/"):
        return path
    return Path("/tmp/home")


def find_toolchains(env: Mapping[str, str]) -> list[Path]:
    """Return existing toolchains of the home that HOME names and of the one in the user database."""
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
    """Return files and directories of the system that hold secrets, and people's homes. Looked up once."""
    keys = [Path(_HOST_KEYS, name) for name in list_names(_HOST_KEYS) if name.endswith("_key")]
    return (*(path for path in map(Path, MASKED_FILES) if path.exists()), *keys, *_list_user_homes())


def list_private_paths() -> list[Path]:
    """Return what only root can read in the directories that hold services' settings.

    A directory with too many entries stands for all below it.
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
    """Return homes from the local user database; no directory service is asked. Homes of services hold no secrets."""
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


_SHARED = {Path("/usr"), Path("/bin"), Path("/var"), Path("/tmp"), Path("/dev"), Path("/etc"), Path("/opt")}
