"""The profile of Seatbelt (macOS) around one command, built from data.

The rules of the language that shape it, from the published profiles of Codex, sandbox-runtime and others: nothing is
allowed by default; the last rule that matches decides, except that a rule for `file-write-unlink` is not undone by a
later one for `file-write*`, so creation and removal are allowed by name where a command may write; paths are matched as
they really are (`/private/tmp`, not `/tmp`); a denied file could be moved to where it is allowed, so neither it nor any
directory above it may be moved.

This text was written from published facts and has not been run by us on a Mac: the self-test decides there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from core.errors import ToolFailed

MAX_PROFILE = 512 << 10  # bytes; it is passed by file, so no argument's limit counts
_PATHS_PER_RULE = 200

PROCESSES = (
    "(allow process-exec)",
    "(allow process-fork)",
    "(allow process-info* (target same-sandbox))",
    "(allow signal (target same-sandbox))",
    "(allow mach-priv-task-port (target same-sandbox))",
)
# Python's pools make named semaphores and ask how many there may be; OpenMP registers itself in shared memory.
SHARED_MEMORY = (
    "(allow ipc-posix-sem)",
    '(allow ipc-posix-shm* (ipc-posix-name-regex #"^/psm_[0-9a-f]+$") '
    '(ipc-posix-name-regex #"^/__KMP_REGISTERED_LIB_[0-9]+$"))',
)
SYSTEM_NUMBERS = (
    *("hw.activecpu", "hw.busfrequency_compat", "hw.byteorder", "hw.cacheconfig", "hw.cachelinesize_compat"),
    *("hw.cpufamily", "hw.cpufrequency_compat", "hw.cputype", "hw.l1dcachesize_compat", "hw.l1icachesize_compat"),
    *("hw.l2cachesize_compat", "hw.l3cachesize_compat", "hw.logicalcpu", "hw.logicalcpu_max", "hw.machine"),
    *("hw.memsize", "hw.model", "hw.ncpu", "hw.nperflevels", "hw.packages", "hw.pagesize", "hw.pagesize_compat"),
    *("hw.physicalcpu", "hw.physicalcpu_max", "hw.tbfrequency_compat", "hw.vectorunit", "kern.argmax"),
    *("kern.hostname", "kern.maxfiles", "kern.maxfilesperproc", "kern.maxproc", "kern.ngroups"),
    *("kern.osproductversion", "kern.osrelease", "kern.ostype", "kern.osvariant_status", "kern.osversion"),
    *("kern.secure_kernel", "kern.sysv.semmni", "kern.usrstack64", "kern.version", "machdep.cpu.brand_string"),
    *("machdep.ptrauth_enabled", "sysctl.proc_cputype", "sysctl.proc_native", "vm.loadavg"),
)
SYSTEM_NUMBER_PREFIXES = (
    *("hw.optional.arm", "hw.perflevel", "kern.posix.sem.", "kern.proc.all", "kern.proc.pgrp.", "kern.proc.pid."),
    *("machdep.cpu.", "net.routetable."),
)
# What a program needs to find users, its temporary directory, fonts and the certificates that the system trusts.
SERVICES = (
    *("com.apple.FontObjectsServer", "com.apple.fonts", "com.apple.logd", "com.apple.system.logger"),
    *("com.apple.PowerManagement.control", "com.apple.system.notification_center", "com.apple.bsd.dirhelper"),
    *("com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership"),
    "com.apple.trustd.agent",
)
# The keychain, other programs (Apple events, `open`) and the clipboard: each would lead out of the box.
DENIED_SERVICES = (
    *("com.apple.SecurityServer", "com.apple.securityd", "com.apple.securityd.xpc", "com.apple.secd"),
    *("com.apple.coreservices.appleevents", "com.apple.coreservices.launchservicesd", "com.apple.lsd.mapdb"),
    *("com.apple.lsd.open", "com.apple.pasteboard.1", "com.apple.pboard"),
)
DENIED_OPERATIONS = ("appleevent-send", "lsopen", "job-creation")
TERMINALS = (
    "(allow pseudo-tty)",
    '(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))',
    '(allow file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))',
    '(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))',
)
DEVICES = (
    '(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") '
    '(literal "/dev/urandom") (literal "/dev/dtracehelper") (literal "/dev/tty"))',
    '(allow file-read* file-write-data (regex #"^/dev/fd/[0-9]+$"))',
)
# For unbound sockets `local ip` matches everything, so what is reached is named by `remote ip`.
LOOPBACK = (
    '(allow network-bind (local ip "localhost:*"))',
    '(allow network-inbound (local ip "localhost:*"))',
    '(allow network-outbound (remote ip "localhost:*"))',
)
PRIVATE_PLACES = ("/Users", "/private/var/folders", "/private/tmp", "/private/var/tmp", "/Volumes", "/private/var/root")


class ProfileInput(Struct, frozen=True, kw_only=True):
    """The paths of one command. It writes below `writable` only. It reads everything but `private` places, and there
    what is `readable` or `writable`; of all that, nothing of `hidden`. `tag` is in the system's messages on refusals.

    `loopback`: it reaches every port of the machine's loopback, which includes the user's own services.
    """

    writable: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    private: tuple[Path, ...] = tuple(map(Path, PRIVATE_PLACES))
    loopback: bool = False
    tag: str = "agent-tui"


def build_profile(paths: ProfileInput, resolve: Callable[[str], str] = os.path.realpath) -> str:
    """Build the profile. `resolve` returns real paths. Raises `ToolFailed` if it would be too long."""
    writable, readable = _resolve(paths.writable, resolve), _resolve(paths.readable, resolve)
    hidden, private = _resolve(paths.hidden, resolve), _resolve(paths.private, resolve)
    lines = [
        "(version 1)",
        f"(deny default (with message {quote(paths.tag)}))",
        *PROCESSES,
        *SHARED_MEMORY,
        *_allow_system(),
        *TERMINALS,
        *DEVICES,
        *_allow_reading([*writable, *readable], private),
        *_allow_writing(writable),
        *_deny_paths(hidden),
        *_allow_network(writable, loopback=paths.loopback),
        *(f"(deny {operation})" for operation in DENIED_OPERATIONS),
        _write_rule("deny", "mach-lookup", [f"(global-name {quote(name)})" for name in DENIED_SERVICES]),
    ]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > MAX_PROFILE:
        raise ToolFailed(
            f"Too many paths are hidden from commands for a sandbox on macOS: {len(hidden):,}.",
            hint="Hide their directories instead.",
        )
    return text


def quote(text: str) -> str:
    """Return a string of the profile's language. Filters take names literally, so `*`, `?` and `[` need no escape."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, escaped)
    return f'"{text}"'


def _resolve(paths: Iterable[Path], resolve: Callable[[str], str]) -> list[str]:
    return sorted({resolve(str(path)) for path in paths})


def _allow_system() -> Iterator[str]:
    yield "(allow user-preference-read)"
    yield '(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))'
    yield "(allow iokit-get-properties)"
    yield "(allow file-map-executable)"
    names = [f"(sysctl-name {quote(name)})" for name in SYSTEM_NUMBERS]
    prefixes = [f"(sysctl-name-prefix {quote(name)})" for name in SYSTEM_NUMBER_PREFIXES]
    yield _write_rule("allow", "sysctl-read", [*names, *prefixes])
    yield _write_rule("allow", "mach-lookup", [f"(global-name {quote(name)})" for name in SERVICES])


def _allow_reading(visible: list[str], private: list[str]) -> Iterator[str]:
    """Everything is readable but the private places, and in those what is visible. Every directory can be examined:
    programs look for their way to the root, and without the root itself nothing can be loaded at all."""
    yield "(allow file-read*)"
    yield from _write_rules("deny", "file-read*", "subpath", private)
    yield '(allow file-read* (literal "/"))'
    yield "(allow file-read-metadata (vnode-type DIRECTORY))"
    ancestors = sorted({above for path in visible for above in _list_ancestors(path)})
    yield from _write_rules("allow", "file-read-metadata", "literal", ancestors)
    yield from _write_rules("allow", "file-read*", "subpath", visible)


def _allow_writing(writable: list[str]) -> Iterator[str]:
    yield from _write_rules("allow", "file-write*", "subpath", writable)
    yield from _write_rules("allow", "file-write-unlink file-write-create", "subpath", writable)
    yield from _write_rules("deny", "file-write-unlink", "literal", writable)  # the roots themselves stay


def _deny_paths(hidden: list[str]) -> Iterator[str]:
    """Deny paths, and the moving of them and of every directory above them."""
    yield from _write_rules("deny", "file-read* file-write*", "subpath", hidden)
    yield from _write_rules("deny", "file-write-unlink file-write-create", "subpath", hidden)
    ancestors = sorted({above for path in hidden for above in _list_ancestors(path)})
    yield from _write_rules("deny", "file-write-unlink", "literal", ancestors)


def _allow_network(writable: list[str], *, loopback: bool) -> Iterator[str]:
    """Sockets are reached by a path only where the command writes: its own."""
    yield "(allow system-socket (socket-domain AF_UNIX))"
    yield "(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))"
    yield _write_rule("allow", "network-bind", [f"(local unix-socket (subpath {quote(path)}))" for path in writable])
    yield _write_rule(
        "allow", "network-outbound", [f"(remote unix-socket (subpath {quote(path)}))" for path in writable]
    )
    if loopback:
        yield from LOOPBACK


def _list_ancestors(path: str) -> list[str]:
    return [str(above) for above in Path(path).parents if str(above) != "/"]


def _write_rules(action: str, operations: str, kind: str, paths: list[str]) -> Iterator[str]:
    """Yield rules for paths, some hundred in each: the compiler's time grows with the number of rules."""
    for start in range(0, len(paths), _PATHS_PER_RULE):
        filters = [f"({kind} {quote(path)})" for path in paths[start : start + _PATHS_PER_RULE]]
        yield _write_rule(action, operations, filters)


def _write_rule(action: str, operations: str, filters: list[str]) -> str:
    return f"({action} {operations} {' '.join(filters)})"
