"""Which places of the machine a command may see, and which do not exist for it, for every tier (SAFETY D24, D25).

Toolchains are allowed by name and part (`machine.toolchains`), so that nothing beside them comes along.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from core.sandbox.machine.toolchains import below

# Of the system. Root could read them in the box as well; for others they are not readable anyway.
MASKED = (
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
_SETTINGS = ("/etc", "/opt", "/srv", "/usr/local/etc", "/var/backups", "/var/lib/private", "/var/spool")
_MOST_ENTRIES = 20_000
_FIRST_PERSON = 1000


def home(env: Mapping[str, str]) -> Path:
    """The home that the command is told; a root directory as home (some containers) is none."""
    named = Path(env.get("HOME", ""))
    if named.is_absolute() and named != Path("/"):
        return named
    return Path("/tmp/home")


def toolchains(env: Mapping[str, str]) -> list[Path]:
    """Existing toolchains of the user's home, also of the one in the user database if HOME says another."""
    homes = {home(env), *_own_home()}
    found = [Path(path) for each in sorted(homes) for path in below(str(each))]
    environment = Path(env.get("VIRTUAL_ENV", ""))
    if environment.is_absolute() and (environment / "pyvenv.cfg").is_file():
        found.append(environment)
    return found


@cache
def masked() -> tuple[Path, ...]:
    """Files and directories of the system that hold secrets, and the homes of people. Looked up once."""
    keys = [Path(_HOST_KEYS, name) for name in _names(_HOST_KEYS) if name.endswith("_key")]
    return (*(path for path in map(Path, MASKED) if path.exists()), *keys, *_homes_of_people())


def not_for_everybody() -> list[Path]:
    """What root could read in the directories that hold services' settings, and others could not.

    A directory with too much in it stands for all below it.
    """
    return [path for top in _SETTINGS for path in _not_for_everybody(top)]


def _not_for_everybody(top: str) -> list[Path]:
    found: list[Path] = []
    waiting, left = [top], _MOST_ENTRIES
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                each = [(entry.path, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
        except OSError:
            continue
        left -= len(each)
        if left < 0:
            return [Path(top)]
        waiting += [path for path, mode in each if stat.S_ISDIR(mode) and mode & stat.S_IXOTH]
        found += [Path(path) for path, mode in each if stat.S_ISDIR(mode) and not mode & stat.S_IXOTH]
        found += [Path(path) for path, mode in each if stat.S_ISREG(mode) and not mode & stat.S_IROTH]
    return found


def _own_home() -> Iterable[Path]:
    try:
        yield Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return


def _homes_of_people() -> list[Path]:
    """From the local user database; no directory service is asked. A home of a service holds data, not secrets."""
    found = []
    try:
        lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        fields = line.split(":")
        if len(fields) == 7 and fields[2].isdigit() and (int(fields[2]) >= _FIRST_PERSON or fields[2] == "0"):
            found.append(Path(fields[5]))
    return [path for path in found if len(path.parts) > 1 and path.is_dir() and path not in _SHARED]


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


_SHARED = {Path("/usr"), Path("/bin"), Path("/var"), Path("/tmp"), Path("/dev"), Path("/etc"), Path("/opt")}
