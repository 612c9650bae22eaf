"""Landlock: a process gives up rights to files, TCP and signals, for itself and its children.

Rules name the rights that remain below a path; all others known to this kernel's ABI are refused. Landlock does not
cover metadata (chmod, chown, utimes, stat), unix sockets that have a path, or UDP. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import os
import stat
import struct

from core.sandbox.inside import kernel

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_ENOSYS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILES_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # from 5 on: 16 bits
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract unix sockets and signals

READ = _EXECUTE | _READ_FILE | _READ_DIR
USE = READ | _WRITE_FILE | _IOCTL_DEV  # for devices: open, write and control, but neither create nor remove
EVERYTHING = (1 << 16) - 1
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


def get_abi_version() -> int:
    """Return the version of Landlock that this kernel offers; 0 if it has none or was booted without it."""
    try:
        return kernel.make_syscall(_CREATE_RULESET, "landlock's version", None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict_self(rules: Iterable[tuple[str, int]], *, tcp: bool = True, scopes: bool = True) -> int:
    """Restrict this thread and all that it executes or starts, permanently; return the ABI version in force.

    `rules` are pairs of a path and the rights (READ, USE or EVERYTHING) that remain on and below it. `tcp` False
    refuses binding and connecting TCP (ABI >= 4); `scopes` restricts signals and abstract unix sockets to the domain
    (ABI >= 6). Sets no_new_privs. A rule for a missing path is left out, which allows less. Raises OSError if the
    kernel refuses; then nothing is restricted.
    """
    version = get_abi_version()
    if version == 0:
        raise OSError(_ENOSYS, "this kernel has no Landlock")
    handled_rights = _FILES_OF_ABI.get(version, EVERYTHING)
    # `struct landlock_ruleset_attr`, in the length of this ABI.
    field_count = 1 + (version >= _TCP_SINCE) + (version >= _SCOPES_SINCE)
    attributes = struct.pack("@QQQ", handled_rights, _TCP if not tcp else 0, _SCOPES if scopes else 0)[
        : 8 * field_count
    ]
    ruleset = kernel.make_syscall(_CREATE_RULESET, "landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for path, rights in rules:
            _add_rule(ruleset, path, rights & handled_rights)
        kernel.forbid_new_privileges()
        kernel.make_syscall(_RESTRICT_SELF, "landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _add_rule(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what can't be opened (a link in a circle, say) needs no rule
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _ON_A_FILE
        rule = struct.pack("=Qi", rights, descriptor)  # packed: 12 bytes
        kernel.make_syscall(_ADD_RULE, f"landlock rule for {path}", ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)
