"""The syscall filter of every tier: a BPF program, assembled here, and the prctls that install it.

It refuses calls that commands do not need and that kernel exploits use most: mounts, namespaces, other processes'
memory, io_uring, kernel keys, exotic socket families, typing into a terminal. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import ctypes
import os
import struct

from core.sandbox.inside import kernel

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Sequence

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
NETWORK = (AF_INET, AF_INET6)
FAMILIES = (AF_UNIX, *NETWORK)

_EPERM, _EINVAL, _ENOSYS, _EAFNOSUPPORT = 1, 22, 38, 97
_ALLOW, _ERRNO, _KILL, _NOTIFY = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_NEW_NAMESPACE = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}; CLONE_NEWTIME exists for unshare only
_TERMINAL_INPUT = (0x5412, 0x541C, 0x541D)  # TIOCSTI, TIOCLINUX, TIOCCONS
_SOCK_TYPE, _SOCK_DGRAM = 0xF, 2
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_SET_MODE_FILTER = 1  # of seccomp(2)

# One number for both architectures: these were added after the tables were united.
_DENIED_ON_ALL = {
    "pidfd_getfd": 438,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "process_mrelease": 448,
    "open_tree_attr": 467,
}
# Name: (x86_64, aarch64); None where the architecture never had it.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# System V and POSIX message queues, semaphores and shared memory: names of the whole machine, where no namespace is.
_SYSTEM_V_CALLS: dict[str, tuple[int, int]] = {
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
}
# Calls that set modes, and the index of the mode: files of a box without its own mounts stay on the machine.
_MODE_CALLS: dict[str, tuple[int | None, int | None, int]] = {
    "chmod": (90, None, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
    "fchmodat2": (452, 452, 2),
    "open": (2, None, 2),
    "openat": (257, 56, 3),
    "creat": (85, None, 1),
    "mknod": (133, None, 1),
    "mknodat": (259, 33, 2),
}
# Calls about a process, where all processes are visible, and the index of its pid; 0 is the caller itself.
_PROCESS_CALLS: dict[str, tuple[int, int, int]] = {
    "prlimit64": (302, 261, 0),
    "setpriority": (141, 140, 1),
    "ioprio_set": (251, 30, 1),
    "sched_setaffinity": (203, 122, 0),
    "sched_setattr": (314, 274, 0),
    "sched_setparam": (142, 118, 0),
    "sched_setscheduler": (144, 119, 0),
}
_USER_WIDE = {"setpriority": 2, "ioprio_set": 3}  # the value of the first argument that selects all processes of a user
_PIDFD_CALLS = {"pidfd_open": 434, "pidfd_send_signal": 424}
_OPENAT2 = 437  # its mode is behind a pointer; programs fall back to openat
_MAKES_FILE = 0o20000100  # O_CREAT and O_TMPFILE; without them the mode is whatever the register held
_SETUID_OR_GID, _FILE_TYPE, _DEVICES = 0o6000, 0o170000, (0o020000, 0o060000)
_CHECKED_CALLS = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "clone": (56, 220),
    "clone3": (435, 435),
}
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def build_filter(families: Sequence[int] = FAMILIES, *, machine: str = "") -> bytes:
    """Build the filter as an array of `struct sock_filter`, which is also what `bwrap --seccomp` reads.

    `families`: those that `socket()` may open. Without AF_UNIX there are no datagram socket pairs either, since one
    half of such a pair can be connected to any socket's path. An empty `families` also refuses all other calls that
    reach other processes by name (System V objects, message queues, other processes' priorities and limits), and setuid
    and setgid bits and devices, which would outlive the box on the host's disk. `machine`: as in `uname -m`, by default
    this one. Raises OSError (ENOSYS) on an unknown architecture.
    """
    column, audit = _find_architecture(machine)
    code = [_encode(_LOAD, _ARCHITECTURE), *_return_unless(_EQUAL, audit, _KILL), _encode(_LOAD, _NUMBER)]
    if column == 0:
        code += _return_if(_AT_LEAST, _X32, _ERRNO | _ENOSYS)
    # Its flags are behind a pointer; programs fall back to clone.
    code += _return_if(_EQUAL, _CHECKED_CALLS["clone3"][column], _ERRNO | _ENOSYS)
    for number in list_denied(machine).values():
        code += _return_if(_EQUAL, number, _ERRNO | _EPERM)
    sockets = [part for family in families for part in _return_if(_EQUAL, family, _ALLOW)]
    sockets = [_load_argument(0), *sockets, _encode(_RETURN, _ERRNO | _EAFNOSUPPORT)]
    terminal = [part for call in _TERMINAL_INPUT for part in _return_if(_EQUAL, call, _ERRNO | _EPERM)]
    code += _check_call(_CHECKED_CALLS["socket"][column], sockets)
    code += _check_call(_CHECKED_CALLS["ioctl"][column], [_load_argument(1), *terminal])
    code += _check_call(
        _CHECKED_CALLS["clone"][column], [_load_argument(0), *_return_if(_ANY_BIT, _NEW_NAMESPACE, _ERRNO | _EPERM)]
    )
    if AF_UNIX not in families:
        pair = [_load_argument(1), _encode(_AND, _SOCK_TYPE), *_return_if(_EQUAL, _SOCK_DGRAM, _ERRNO | _EAFNOSUPPORT)]
        code += _check_call(_CHECKED_CALLS["socketpair"][column], pair)
    if not families:
        code += _build_host_rules(column)
    return b"".join([*code, _encode(_RETURN, _ALLOW)])


def _build_host_rules(column: int) -> list[bytes]:
    code = _return_if(_EQUAL, _OPENAT2, _ERRNO | _ENOSYS)
    for number in (*(numbers[column] for numbers in _SYSTEM_V_CALLS.values()), *_PIDFD_CALLS.values()):
        code += _return_if(_EQUAL, number, _ERRNO | _EPERM)
    for name, (x86, arm, mode_index) in _MODE_CALLS.items():
        if (call_number := arm if column else x86) is not None:
            makes_nodes, opens = name.startswith("mknod"), name.startswith("open")
            code += _check_call(call_number, _build_mode_checks(mode_index, makes_nodes=makes_nodes, opens=opens))
    for name, numbers in _PROCESS_CALLS.items():
        user = [_load_argument(0), *_return_if(_EQUAL, _USER_WIDE[name], _ERRNO | _EPERM)] if name in _USER_WIDE else []
        code += _check_call(
            numbers[column], [*user, _load_argument(numbers[2]), *_return_unless(_EQUAL, 0, _ERRNO | _EPERM)]
        )
    return code


def _build_mode_checks(mode_index: int, *, makes_nodes: bool, opens: bool) -> list[bytes]:
    checks = [_load_argument(mode_index - 1), *_return_unless(_ANY_BIT, _MAKES_FILE, _ALLOW)] if opens else []
    checks += [_load_argument(mode_index), *_return_if(_ANY_BIT, _SETUID_OR_GID, _ERRNO | _EPERM)]
    if makes_nodes:
        checks.append(_encode(_AND, _FILE_TYPE))
        checks += [part for kind in _DEVICES for part in _return_if(_EQUAL, kind, _ERRNO | _EPERM)]
    return checks


def list_denied(machine: str = "") -> dict[str, int]:
    """Return the system calls that are refused with EPERM whatever their arguments: name and number on `machine`."""
    column, _ = _find_architecture(machine)
    denied_numbers = {name: numbers[column] for name, numbers in _DENIED.items()}
    return {name: number for name, number in denied_numbers.items() if number is not None} | _DENIED_ON_ALL


def build_rename_filter(*, machine: str = "") -> bytes:
    """Build a filter that reports renames to the holder of its listener, and allows everything else."""
    _, audit = _find_architecture(machine)
    code = [_encode(_LOAD, _ARCHITECTURE), *_return_unless(_EQUAL, audit, _ALLOW), _encode(_LOAD, _NUMBER)]
    for number in kernel.RENAME_NUMBERS[machine or os.uname().machine].values():
        code += _return_if(_EQUAL, number, _NOTIFY)
    return b"".join([*code, _encode(_RETURN, _ALLOW)])


def install_filter(program: bytes) -> None:
    """Install the filter for this process and all that it executes or starts, permanently. Raises OSError if refused.

    Sets no_new_privs, without which an ordinary user may not install a filter. Call it in a process with one thread.
    """
    code, structure = _build_program(program)
    kernel.forbid_new_privileges()
    kernel.call_prctl("the seccomp filter", _PR_SET_SECCOMP, _MODE_FILTER, structure)
    del code


def install_listener(program: bytes, flags: int, optional_flags: int = 0) -> int:
    """Install a filter as `install_filter` does, and return the descriptor on which the kernel reports the calls for
    which it asks. `optional_flags`: those that older kernels do not know. Raises OSError."""
    code, structure = _build_program(program)
    kernel.forbid_new_privileges()
    number = kernel.find_syscall_number("seccomp")
    try:
        return kernel.make_syscall(number, "the listener", _SET_MODE_FILTER, flags | optional_flags, structure)
    except OSError as error:
        if error.errno != _EINVAL or not optional_flags:
            raise
        return kernel.make_syscall(number, "the listener", _SET_MODE_FILTER, flags, structure)
    finally:
        del code


def _build_program(program: bytes) -> tuple[object, bytes]:
    """Return `struct sock_fprog`, and the code to which it points, which must live until it is installed."""
    code = ctypes.create_string_buffer(program, len(program))
    return code, struct.pack("@HP", len(program) // struct.calcsize("HBBI"), ctypes.addressof(code))


def _find_architecture(machine: str) -> tuple[int, int]:
    name = machine or os.uname().machine
    if name not in _ARCHITECTURES:
        raise OSError(_ENOSYS, f"no syscall numbers for {name}")
    return _ARCHITECTURES[name]


def _encode(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _return_if(test: int, value: int, result: int) -> list[bytes]:
    """Return `result` if the test of the loaded word holds, else continue."""
    return [_encode(test, value, 0, 1), _encode(_RETURN, result)]


def _return_unless(test: int, value: int, result: int) -> list[bytes]:
    """Return `result` unless the test of the loaded word holds."""
    return [_encode(test, value, 1, 0), _encode(_RETURN, result)]


def _load_argument(index: int) -> bytes:
    """Load the low half of an argument: the calls that are checked by one read it as an int."""
    return _encode(_LOAD, _ARGUMENTS + 8 * index)


def _check_call(number: int, checks: list[bytes]) -> list[bytes]:
    """Run the checks for this call only. They end by allowing it, so no later test sees a loaded argument."""
    return [_encode(_EQUAL, number, 0, len(checks) + 1), *checks, _encode(_RETURN, _ALLOW)]
