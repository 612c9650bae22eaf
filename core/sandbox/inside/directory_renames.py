"""Renames of directories in a box: an overlay refuses (EXDEV) to rename a directory that lies in a lower layer.

`mv` copies then, but `git mv`, `os.rename` and bundlers that swap their output fail. The kernel's own remedy, the mount
option `redirect_dir`, is not available to overlays of ordinary users. So the kernel reports the command's calls of
`rename` to a process of ours (seccomp's user notification), which lets everything pass that is no directory. For a
directory it calls `rename` itself; where that is refused, it copies the directory beside its new name, renames the
copy, which lies in the upper layer alone, and removes the original. It has no more rights than the command.

See seccomp_unotify(2); `struct seccomp_notif` has 80 bytes, its response 24. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import errno
import fcntl
import os
import select
import signal
import stat
import struct

from core.filesystem.mount_table import read_mounts
from core.sandbox.inside import kernel, seccomp

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import NoReturn

_RECEIVE, _SEND, _NEW_LISTENER, _WAIT_KILLABLE = 0xC0502100, 0xC0182101, 1 << 3, 1 << 5
_GET_OWNER = 0xB701  # NS_GET_USERNS
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_NO_REPLACE = 1  # RENAME_NOREPLACE
_PAGE, _MAX_PATH = 4096, 4096
_NUMBERS = kernel.RENAME_NUMBERS.get(os.uname().machine, {})
_CHUNK = 1 << 20


class RenameCall:
    """A call of `rename`, `renameat` or `renameat2` by a thread: two paths as it sees them, and the flags."""

    def __init__(self, thread: int, number: int, arguments: Sequence[int]) -> None:
        first, second, third, fourth, fifth, _ = arguments
        if number == _NUMBERS.get("rename"):
            first, second, third, fourth = kernel.AT_FDCWD, first, kernel.AT_FDCWD, second
        self.flags = fifth & 0xFFFFFFFF if number == _NUMBERS["renameat2"] else 0
        self._thread, self._new = thread, (third, fourth)
        self._memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._old_base, self._old_path = self._locate(first, second)
        except OSError:
            self.close()
            raise

    def is_of_directory(self) -> bool:
        """True if it is a plain rename of a directory."""
        path = self._old_base + b"/" + self._old_path.rstrip(b"/")
        return not self.flags & ~_NO_REPLACE and stat.S_ISDIR(os.lstat(path).st_mode)

    def rename(self, enter: Callable[[int], None] | None) -> None:
        """Rename the directory. Raises OSError."""
        points = [point for point, _ in read_mounts(self._thread)]
        paths = [(self._old_base, self._old_path), self._locate(*self._new)]
        bases = [os.open(base, os.O_PATH | os.O_DIRECTORY) for base, _ in paths]
        if enter is not None:
            enter(self._thread)
        old, new = (_resolve(base, path) for base, (_, path) in zip(bases, paths, strict=True))
        rename_directory(old, new, points, replaces=not self.flags & _NO_REPLACE)

    def _locate(self, directory: int, address: int) -> tuple[bytes, bytes]:
        """Return a directory of the caller, as a path in /proc, and the path below it."""
        path = self._read_path(address)
        number = directory & 0xFFFFFFFF
        if path.startswith(b"/"):
            base = b"root"
        else:
            base = b"cwd" if number == kernel.AT_FDCWD & 0xFFFFFFFF else b"fd/%d" % number
        return b"/proc/%d/%s" % (self._thread, base), path.lstrip(b"/")

    def _read_path(self, address: int) -> bytes:
        """Read a string of the caller, page by page, since the next page may not exist."""
        text = b""
        while b"\0" not in text and len(text) <= _MAX_PATH:
            size = _PAGE - (address + len(text)) % _PAGE
            piece = os.pread(self._memory, size, address + len(text))
            if not piece:
                break
            text += piece
        path, end, _ = text.partition(b"\0")
        if not end or not path:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return path

    def close(self) -> None:
        os.close(self._memory)


def _resolve(directory: int, path: bytes) -> bytes:
    """Return the absolute path, for a process that has the caller's mounts."""
    os.fchdir(directory)
    return os.getcwdb().rstrip(b"/") + b"/" + path.rstrip(b"/")


def start_helper(enters_mounts: bool = False) -> tuple[int, int]:
    """Start the process that answers; return its pid and the socket on which `report_renames` reaches it.

    `enters_mounts`: the caller has a root of its own, which the process enters for every directory.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _run_helper(theirs.detach(), _enter_mounts if enters_mounts else None)
        finally:
            os._exit(1)
    theirs.close()
    return pid, ours.detach()


def report_renames(helper: int) -> None:
    """Have the kernel report this process's renames, and those of all that it starts, to the helper at a socket.

    Where the kernel has no such reports (before 5.5), or other software takes them, renames are as the overlay has
    them.
    """
    connection = _socket.socket(fileno=helper)
    with contextlib.suppress(OSError):
        listener = seccomp.install_listener(seccomp.build_rename_filter(), _NEW_LISTENER, _WAIT_KILLABLE)
        descriptors = array.array("i", [listener])
        connection.sendmsg([b"r"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
        os.close(listener)
    connection.close()


def _run_helper(connection: int, enter: Callable[[int], None] | None) -> NoReturn:
    kernel.die_with_parent(signal.SIGKILL)
    kernel.forbid_inspection()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it answers to the end: a program that is being ended renames, too
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.dup2(connection, 3, inheritable=False)
    os.closerange(0, 3)  # the command's own streams
    kernel.close_from(4)
    socket = _socket.socket(fileno=3)
    _, ancillary, _, _ = socket.recvmsg(1, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
    socket.close()
    if not ancillary:
        os._exit(0)
    listener = array.array("i")
    listener.frombytes(ancillary[0][2])
    _RenameServer(listener[0], enter).serve()


class _RenameServer:
    def __init__(self, listener: int, enter: Callable[[int], None] | None) -> None:
        self._listener, self._enter = listener, enter

    def serve(self) -> NoReturn:
        """Answer until no process with the filter is left."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while not any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll()):
            notification = bytearray(_NOTIFICATION.size)
            with contextlib.suppress(OSError):  # the caller may have been killed
                fcntl.ioctl(self._listener, _RECEIVE, notification, True)
                self._handle(bytes(notification))
        os._exit(0)

    def _handle(self, notification: bytes) -> None:
        identity, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(notification)
        try:
            call = RenameCall(thread, number, arguments)
        except OSError:
            self._respond(identity, passes=True)
            return
        try:
            if not _is_of_directory(call):
                self._respond(identity, passes=True)
            elif os.fork() == 0:
                self._rename(identity, call)
        finally:
            call.close()

    def _rename(self, identity: int, call: RenameCall) -> NoReturn:
        """Rename a directory and respond, in a process of its own, since a copy may take long."""
        error = errno.EIO
        try:
            call.rename(self._enter)
            error = 0
        except OSError as problem:
            error = problem.errno or error
        finally:
            self._respond(identity, error=error)
            os._exit(0)

    def _respond(self, identity: int, *, passes: bool = False, error: int = 0) -> None:
        response = _RESPONSE.pack(identity, 0, -error, _CONTINUE if passes else 0)
        with contextlib.suppress(OSError):  # the caller may have been killed
            fcntl.ioctl(self._listener, _SEND, response)


def _is_of_directory(call: RenameCall) -> bool:
    try:
        return call.is_of_directory()
    except OSError:
        return False


def _enter_mounts(thread: int) -> None:
    """Enter the mounts of the caller, in which paths mean what they mean to it: no link can lead out of them. The
    rights that this gives are dropped, so that the caller gets none that it lacks."""
    mounts = os.open(f"/proc/{thread}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(mounts, _GET_OWNER)
    if os.stat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
        kernel.join_namespace(owner, kernel.NEW_USER)
    kernel.join_namespace(mounts, kernel.NEW_MOUNTS)
    os.close(mounts)
    os.close(owner)
    kernel.drop_capabilities()


def rename_directory(old: bytes, new: bytes, mount_points: Iterable[bytes], *, replaces: bool = True) -> None:
    """Rename a directory (absolute paths) as rename(2) does, by a copy where the overlay refuses it. Raises OSError,
    after which `old` is as before, unless it could not be removed after it was copied."""
    if not replaces and os.path.lexists(new):
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
    try:
        os.rename(old, new)
        return
    except OSError as error:
        if error.errno != errno.EXDEV or not _is_refused_by_overlay(old, new):
            raise
    old = os.path.realpath(os.path.dirname(old)) + b"/" + os.path.basename(old)
    if any(point.startswith(old + b"/") for point in mount_points):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    if os.path.isdir(new) and os.listdir(new):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
    copy = os.path.dirname(new) + b"/.rename-%d" % os.getpid()
    try:
        _copy_tree(old, copy)
        os.rename(copy, new)
    except BaseException:
        _remove_tree(copy)
        raise
    _remove_tree(old)


def _is_refused_by_overlay(old: bytes, new: bytes) -> bool:
    """True if both are on one file system, which has refused the rename all the same."""
    return os.lstat(old).st_dev == os.stat(os.path.dirname(new)).st_dev


def _copy_tree(source: bytes, target: bytes) -> None:
    """Copy a tree with its modes, times, links and attributes. Raises OSError if a part of it can't be read."""
    links: dict[tuple[int, int], bytes] = {}
    directories: list[tuple[bytes, bytes]] = []
    waiting = [(source, target)]
    while waiting:
        old, new = waiting.pop()
        os.mkdir(new, 0o700)
        directories.append((old, new))
        with os.scandir(old) as entries:
            for entry in entries:
                path = new + b"/" + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, path))
                else:
                    _copy_entry(entry.path, path, links)
    for old, new in reversed(directories):  # a new entry would change the time of its directory
        _copy_status(old, new)


def _copy_entry(source: bytes, target: bytes, links: dict[tuple[int, int], bytes]) -> None:
    stats = os.lstat(source)
    first = links.setdefault((stats.st_dev, stats.st_ino), target) if stats.st_nlink > 1 else target
    if first != target:
        os.link(first, target, follow_symlinks=False)
        return
    if stat.S_ISLNK(stats.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(stats.st_mode):
        _copy_content(source, target)
    else:
        os.mknod(target, stats.st_mode)
    _copy_status(source, target)


def _copy_content(source: bytes, target: bytes) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while os.sendfile(writer, reader, None, _CHUNK):  # None: from where it stands
                pass
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _copy_status(source: bytes, target: bytes) -> None:
    stats = os.lstat(source)
    for name in _list_attributes(source):
        with contextlib.suppress(OSError):
            value = os.getxattr(source, name, follow_symlinks=False)
            os.setxattr(target, name, value, follow_symlinks=False)
    if not stat.S_ISLNK(stats.st_mode):
        os.chmod(target, stat.S_IMODE(stats.st_mode))
    os.utime(target, ns=(stats.st_atime_ns, stats.st_mtime_ns), follow_symlinks=False)


def _list_attributes(path: bytes) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user."))


def _remove_tree(top: bytes) -> None:
    """Remove a tree, also below directories that their owner may not change. Raises OSError."""
    if not os.path.lexists(top):
        return
    directories = [top]
    for directory in directories:
        os.chmod(directory, 0o700)
        with os.scandir(directory) as entries:
            for entry in [*entries]:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                else:
                    os.unlink(entry.path)
    for directory in reversed(directories):
        os.rmdir(directory)
