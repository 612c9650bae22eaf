"""Landlock: a process gives up, for itself and its children, rights to files, TCP and signals (SAFETY C6).

Rules name what stays allowed below a path; all else that this kernel's ABI knows is refused. It does not cover metadata
(chmod, chown, utimes, stat), unix sockets that have a path, or UDP. Runs in `python -I -S -B` with no more than ctypes
and struct loaded.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_ENOSYS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILES_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # from 5 on: 16 bits
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract unix sockets and signals

READ = _EXECUTE | _READ_FILE | _READ_DIR
USE = READ | _WRITE_FILE | _IOCTL_DEV  # for devices: opened, written to and controlled, neither made nor removed
EVERYTHING = (1 << 16) - 1
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


def get_abi_version() -> int:
    """Return the version of Landlock that this kernel offers; 0 if it has none or was booted without it."""
    version: int = _load_libc().syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG)
    )
    return max(version, 0)


def restrict_self(rules: Iterable[tuple[str, int]], *, tcp: bool = True, scopes: bool = True) -> int:
    """Restrict this thread and all that it becomes or starts, for good; return the ABI version in force.

    `rules` are pairs of a path and the rights (READ, USE or EVERYTHING) that stay allowed there and below. `tcp` False
    refuses binding and connecting TCP (ABI >= 4); `scopes` keeps signals and abstract unix sockets inside (ABI >= 6).
    Sets no_new_privs. A rule for a missing path is left out, which allows less. Raises OSError if the kernel refuses;
    then nothing is restricted.
    """
    version = get_abi_version()
    if version == 0:
        raise OSError(_ENOSYS, "this kernel has no Landlock")
    handled = _FILES_OF_ABI.get(version, EVERYTHING)
    libc = _load_libc()
    ruleset = _create_ruleset(libc, handled, version, _TCP if not tcp else 0, _SCOPES if scopes else 0)
    try:
        for path, rights in rules:
            _add_rule(libc, ruleset, path, rights & handled)
        zero = ctypes.c_ulong(0)
        _check_result(libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero), "no_new_privs")
        _check_result(
            libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint(0)),
            "landlock_restrict_self",
        )
    finally:
        os.close(ruleset)
    return version


def _load_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _create_ruleset(libc: ctypes.CDLL, files: int, version: int, tcp: int, scopes: int) -> int:
    """Create a ruleset from `struct landlock_ruleset_attr`, as long as this ABI knows it."""
    attributes = struct.pack("@Q", files)
    if version >= _TCP_SINCE:
        attributes += struct.pack("@Q", tcp)
    if version >= _SCOPES_SINCE:
        attributes += struct.pack("@Q", scopes)
    made = libc.syscall(ctypes.c_long(_CREATE_RULESET), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    return _check_result(made, "landlock_create_ruleset")


def _add_rule(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _ON_A_FILE
        rule = struct.pack("=Qi", rights, place)  # packed: 12 bytes
        added = libc.syscall(
            ctypes.c_long(_ADD_RULE), ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint(0)
        )
        _check_result(added, f"landlock rule for {path}")
    finally:
        os.close(place)


def _check_result(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)
