"""System calls that Python has no name for: namespaces, mounts by descriptor, capabilities; by ctypes alone.

Every failure is an `OSError` whose text names the call and its object. Runs in `python -I -S -B` with no more than
ctypes, os and struct loaded; paths are bytes, since nothing here may depend on a locale.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable

NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000
NEW_MOUNTS, NEW_USER, NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
AT_FDCWD = -100  # AT_FDCWD

READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC = 0x1, 0x2, 0x4, 0x8  # MOUNT_ATTR_*
_RECURSIVE, _EMPTY_PATH = 0x8000, 0x1000
_CLONE, _CLOEXEC = 1, os.O_CLOEXEC
_FROM_EMPTY, _TO_FOLLOWED = 0x4, 0x10
_SET_FLAG, _SET_STRING, _CREATE = 0, 1, 6
_PRIVATE_ALL = 0x4000 | 0x40000
_DETACH = 2
_MS_NO_SUID, _MS_NO_DEVICES = 0x2, 0x4

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 47, 38
_AMBIENT_CLEAR = 4
CHANGE_OF_USER = 1 << 0 | 1 << 6 | 1 << 7  # CAP_CHOWN, CAP_SETGID, CAP_SETUID
_CAPABILITIES_V3 = 0x20080522
_JOIN_SESSION_KEYRING = 1
_UNCHANGED = 0xFFFFFFFF
_NOBODY = 65534

# Calls newer than 2019 have one number everywhere.
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _CLOSE_RANGE, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 436, 442
_OLD_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "keyctl": 250, "seccomp": 317, "setns": 308},
    "aarch64": {"pivot_root": 41, "capset": 91, "keyctl": 219, "seccomp": 277, "setns": 268},
}
RENAME_NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {"rename": 82, "renameat": 264, "renameat2": 316},
    "aarch64": {"renameat": 38, "renameat2": 276},
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def find_syscall_number(name: str, machine: str = "") -> int:
    """Return the number of a call that differs between architectures. Raises OSError (ENOSYS) on unknown ones."""
    machine = machine or os.uname().machine
    if machine not in _OLD_NUMBERS:
        raise OSError(38, f"no syscall numbers for {machine}")
    return _OLD_NUMBERS[machine][name]


def unshare(flags: int) -> None:
    _check_result(_libc.unshare(ctypes.c_int(flags)), "unshare")


def join_namespace(descriptor: int, kind: int) -> None:
    """Join the namespace of a kind (`NEW_USER`, …) that a descriptor of `/proc/PID/ns` refers to."""
    make_syscall(find_syscall_number("setns"), "join a namespace", descriptor, kind)


def join_network(namespaces: list[int]) -> None:
    """Join a network by its namespace, after the user namespace that owns it if that is another one; close both."""
    for descriptor, kind in zip(namespaces, (NEW_USER, NEW_NETWORK)[-len(namespaces) :], strict=False):
        join_namespace(descriptor, kind)
        os.close(descriptor)


def make_mounts_private() -> None:
    """Stop mounts from propagating between this namespace and the outside, both ways."""
    _check_result(_libc.mount(None, b"/", None, ctypes.c_ulong(_PRIVATE_ALL), None), "make mounts private")


def mount_with_options(kind: bytes, target: bytes, options: bytes) -> None:
    """Mount by the old mount(2), for options that the kernel does not accept by `fsconfig` yet."""
    flags = ctypes.c_ulong(_MS_NO_SUID | _MS_NO_DEVICES)
    _check_result(_libc.mount(kind, target, kind, flags, options), f"mount {kind.decode()}")


def create_mount(kind: bytes, options: Iterable[tuple[bytes, bytes | None]], attributes: int) -> int:
    """Create a mount that is not attached yet; return its descriptor. An option without a value is a flag."""
    name = kind.decode()
    context = make_syscall(_FSOPEN, f"fsopen {name}", kind, 1)
    try:
        for key, value in options:
            label = f"{name} {key.decode()}"
            if value is None:
                make_syscall(_FSCONFIG, label, context, _SET_FLAG, key, 0, 0)
            else:
                make_syscall(_FSCONFIG, label, context, _SET_STRING, key, value, 0)
        make_syscall(_FSCONFIG, f"create {name}", context, _CREATE, 0, 0, 0)
        return make_syscall(_FSMOUNT, f"fsmount {name}", context, 1, attributes)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}{_read_mount_error(context)}") from None
    finally:
        os.close(context)


def _read_mount_error(context: int) -> str:
    try:
        return " (" + os.read(context, 512).decode("utf-8", "replace").strip() + ")"
    except OSError:
        return ""


def clone_mount(path: bytes, *, recursive: bool = True) -> int:
    """Clone the mount of a path; return the descriptor of the detached copy. Symbolic links are followed."""
    flags = _CLONE | _CLOEXEC | (_RECURSIVE if recursive else 0)
    return make_syscall(_OPEN_TREE, f"open_tree {_format_path(path)}", AT_FDCWD, path, flags)


def attach_mount(mount: int, target: bytes) -> None:
    """Attach a detached mount at a path, and close its descriptor."""
    make_syscall(
        _MOVE_MOUNT, f"mount at {_format_path(target)}", mount, b"", AT_FDCWD, target, _FROM_EMPTY | _TO_FOLLOWED
    )
    os.close(mount)


def set_mount_attributes(mount: int, path: bytes, *, add: int = 0, clear: int = 0, recursive: bool = False) -> None:
    """Change the attributes of a mount: that of the descriptor if the path is empty, else the one at the path."""
    structure = struct.pack("@QQQQ", add, clear, 0, 0)
    flags = (_EMPTY_PATH if not path else 0) | (_RECURSIVE if recursive else 0)
    label = f"mount_setattr {_format_path(path)}"
    make_syscall(_MOUNT_SETATTR, label, mount, path, flags, structure, len(structure))


def pivot_root_here() -> None:
    """Make the working directory the root; the old root is stacked on top of it until it is unmounted."""
    make_syscall(find_syscall_number("pivot_root"), "pivot_root", b".", b".")


def unmount(path: bytes) -> None:
    """Detach the mount of a path, with all mounts below it."""
    _check_result(_libc.umount2(path, ctypes.c_int(_DETACH)), f"unmount {_format_path(path)}")


def write_setting(path: bytes, text: bytes) -> None:
    """Write to a file of /proc or /sys. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def close_from(first: int) -> None:
    """Close every descriptor from this number on."""
    make_syscall(_CLOSE_RANGE, "close_range", first, 0xFFFFFFFF, 0)


def die_with_parent(signal: int) -> None:
    call_prctl("parent death signal", _PR_SET_PDEATHSIG, signal)


def forbid_inspection() -> None:
    """Forbid ptrace, /proc/PID/mem and core dumps of this process to others of the same user."""
    call_prctl("not dumpable", _PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Set no_new_privs, without which an ordinary user may install neither a syscall filter nor Landlock's rules."""
    call_prctl("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding_set() -> None:
    """Drop the capability bounding set, so that nothing executed later can have a capability."""
    for number in range(64):
        word = ctypes.c_ulong(number)
        if _libc.prctl(_PR_CAPBSET_DROP, word, _ZERO, _ZERO, _ZERO) != 0:
            break  # the first number that this kernel does not know
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_AMBIENT_CLEAR), _ZERO, _ZERO, _ZERO)


def drop_capabilities() -> None:
    """Drop every capability, also for programs that are executed later."""
    drop_bounding_set()
    header = struct.pack("@Ii", _CAPABILITIES_V3, 0)
    make_syscall(find_syscall_number("capset"), "capset", header, bytes(24))


def read_capabilities() -> int:
    """Return the effective capabilities of this process, as a set of bits."""
    with open("/proc/self/status", "rb") as table:
        return next(int(line.split()[1], 16) for line in table if line.startswith(b"CapEff:"))


class FileAccessAs:
    """Context in which this thread accesses files as another user and group: `with FileAccessAs(uid):`.

    Mounts created in it retain these rights. 0 changes nothing; other ids are for root, and clear the parent death
    signal.
    """

    def __init__(self, uid: int) -> None:
        self._uid = uid

    def __enter__(self) -> None:
        for call in (_libc.setfsgid, _libc.setfsuid) if self._uid else ():
            call(ctypes.c_uint(self._uid))
            if call(ctypes.c_uint(_UNCHANGED)) != self._uid:
                self.__exit__()
                raise OSError(1, f"files can't be reached as user {self._uid}, who is not known here")

    def __exit__(self, *_: object) -> None:
        for call in (_libc.setfsuid, _libc.setfsgid) if self._uid else ():
            call(ctypes.c_uint(0))


def find_nobody_id() -> int:
    """Return the id of a user who owns nothing, within the mapped ids; 0 if only our own id is mapped."""
    with open("/proc/self/uid_map", "rb") as table:
        ranges = [(int(first), int(count)) for first, _, count in (line.split() for line in table)]
    if any(first <= _NOBODY < first + count for first, count in ranges):
        return _NOBODY
    return max(first + count - 1 for first, count in ranges)


def become_user(uid: int, gid: int) -> None:
    """Become this user and group permanently; for root only. Clears the parent death signal."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def leave_session_keyring() -> None:
    """Join a fresh, empty session keyring. A kernel without keyrings has none to leave."""
    _libc.syscall(ctypes.c_long(find_syscall_number("keyctl")), ctypes.c_long(_JOIN_SESSION_KEYRING), None)


_ZERO = ctypes.c_ulong(0)


def call_prctl(label: str, option: int, value: int, structure: bytes | None = None) -> None:
    """Call prctl(2) with a number and optionally a structure. Raises OSError with `label`."""
    _check_result(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), structure, _ZERO, _ZERO), label)


def make_syscall(number: int, label: str, *arguments: int | bytes | None) -> int:
    """Make a system call and return its result. Raises OSError; `label` names the call in it."""
    words = [
        ctypes.c_long(argument) if isinstance(argument, int) else ctypes.c_char_p(argument) for argument in arguments
    ]
    return _check_result(_libc.syscall(ctypes.c_long(number), *words), label)


def _check_result(result: int, label: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{label}: {os.strerror(number)}")
    return int(result)


def _format_path(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
