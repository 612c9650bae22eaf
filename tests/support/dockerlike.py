"""Runs a command as in a plain `docker run`: `dockerlike.py [--uid N] COMMAND …`.

Docker's default seccomp filter refuses namespaces and mounts, and its default capabilities remain to root. Landlock and
`chroot` are allowed. For x86_64; the numbers are those of its system calls.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import struct
import sys
from typing import Final

# unshare, mount, umount2, setns, pivot_root, open_tree, move_mount, fsopen, fsconfig, fsmount, mount_setattr, bpf,
# perf_event_open
_REFUSED: Final = (272, 165, 166, 308, 155, 428, 429, 430, 431, 432, 442, 321, 298)
_CLONE, _CLONE3, _NEW_NAMESPACES = 56, 435, 0x7E020000
_X86_64: Final = 0xC000003E
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_SET_SECCOMP, _FILTER = 22, 2
_KEPT: Final = (
    "+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,"
    "+mknod,+audit_write,+setfcap"
)


def is_possible() -> bool:
    """True if this machine can play a container: Linux on x86_64, as root, with setpriv."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and os.geteuid() == 0
        and shutil.which("setpriv") is not None
    )


def _build_filter() -> bytes:
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _X86_64), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for number in _REFUSED:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | _EPERM)]
    steps += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERROR | _ENOSYS)]
    steps += [(_EQUAL, 0, 3, _CLONE), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, _NEW_NAMESPACES)]
    steps += [(_RETURN, 0, 0, _ERROR | _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def main(arguments: list[str]) -> None:
    """Install the filter, drop what Docker drops, and become the command."""
    user = "0"
    if arguments[0] == "--uid":
        user, arguments = arguments[1], arguments[2:]
    code = _build_filter()
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
    command = ["setpriv", f"--bounding-set=-all,{_KEPT}", "--inh-caps=-all"]
    if user != "0":
        command += ["--reuid", user, "--regid", user, "--clear-groups"]
    os.execvp("setpriv", [*command, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
