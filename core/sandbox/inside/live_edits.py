"""Edits of the project that a running command sees: written through its own mounts, so that its watchers notice them.

A layer below a mounted overlay may not be changed, and a process that watches files would not be told. So a process of
ours in the box takes edits from the engine and makes them where the command would: in the layer that is the command's
own. It has no more rights than the command. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import errno
import marshal
import os
import signal
import stat

from core.sandbox.inside import kernel

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from typing import Literal, NoReturn

    # Number, path below the workspace, kind, mode, modification time (ns since 1970), target of a link, and whether a
    # file is written that has this content already; the content comes as a descriptor.
    Edit = tuple[int, bytes, Literal["file", "symlink", "directory", "absent"], int, int, bytes, bool]

_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def start_helper(connection: int, workspace: bytes) -> int:
    """Start the process that makes the edits; return its pid. It ends with the box."""
    pid = os.fork()
    if pid == 0:
        try:
            _run_helper(connection, workspace)
        finally:
            os._exit(1)
    os.close(connection)
    return pid


def _run_helper(connection: int, workspace: bytes) -> NoReturn:
    kernel.die_with_parent(signal.SIGKILL)
    kernel.forbid_inspection()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.umask(0o022)
    os.dup2(connection, 3, inheritable=False)
    os.closerange(0, 3)  # the command's own streams
    kernel.close_from(4)
    engine = _socket.socket(fileno=3)
    top = os.open(workspace, _DIRECTORY)
    while True:
        packet, rights, _, _ = engine.recvmsg(65_536, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
        if not packet:
            os._exit(0)
        content = array.array("i")
        for _, _, data in rights:
            content.frombytes(data)
        edit: Edit = marshal.loads(packet)
        try:
            make_edit(top, edit, content[0] if content else -1)
            answer = 0
        except OSError as error:
            answer = error.errno or errno.EIO
        for descriptor in content:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            engine.send(marshal.dumps((edit[0], answer)))


def make_edit(top: int, edit: Edit, content: int) -> None:
    """Make one edit below the directory `top`; what is already as it is to be is left alone. Raises OSError."""
    _, path, kind, mode, modified_ns, target, is_forced = edit
    directory, _, name = path.rpartition(b"/")
    try:
        parent = _open_parent(top, directory, creates=kind != "absent")
    except FileNotFoundError:
        return
    try:
        if kind == "absent":
            _remove(parent, name)
        elif kind == "directory":
            _make_directory(parent, name, mode)
        elif kind == "symlink":
            _make_link(parent, name, target)
        elif is_forced or not _is_same_file(parent, name, mode, content):
            _write_file(parent, name, (mode, modified_ns), content)
    finally:
        os.close(parent)


def _open_parent(top: int, directory: bytes, *, creates: bool) -> int:
    """Open a directory below `top` without following a link; missing ones, and files in the way, are replaced."""
    descriptor = os.dup(top)
    for name in directory.split(b"/") if directory else ():
        try:
            try:
                below = os.open(name, _DIRECTORY, dir_fd=descriptor)
            except (FileNotFoundError, NotADirectoryError):
                if not creates:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)
                os.mkdir(name, 0o755, dir_fd=descriptor)
                below = os.open(name, _DIRECTORY, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _find_mode(parent: int, name: bytes) -> int:
    """Return the type and mode of an entry, 0 if there is none."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _remove(parent: int, name: bytes) -> None:
    mode = _find_mode(parent, name)
    if stat.S_ISDIR(mode):
        _empty_directory(parent, name)
        os.rmdir(name, dir_fd=parent)
    elif mode:
        os.unlink(name, dir_fd=parent)


def _empty_directory(parent: int, name: bytes) -> None:
    directory = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        for entry in os.listdir(directory):
            _remove(directory, os.fsencode(entry))
    finally:
        os.close(directory)


def _make_directory(parent: int, name: bytes, mode: int) -> None:
    """Make a directory, or check one that is there: the kernel fails to list it if the user's own directory below it
    has been moved or removed."""
    if stat.S_ISDIR(_find_mode(parent, name)):
        directory = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            os.listdir(directory)
        finally:
            os.close(directory)
        return
    _remove(parent, name)
    os.mkdir(name, dir_fd=parent)
    os.chmod(name, mode | 0o700, dir_fd=parent)


def _make_link(parent: int, name: bytes, target: bytes) -> None:
    if stat.S_ISLNK(_find_mode(parent, name)) and os.readlink(name, dir_fd=parent) == target:
        return
    _remove(parent, name)
    os.symlink(target, name, dir_fd=parent)


def _write_file(parent: int, name: bytes, status: tuple[int, int], content: int) -> None:
    """Write a file beside its place, and move it there: nobody reads half of it."""
    mode, modified_ns = status
    if stat.S_ISDIR(_find_mode(parent, name)):
        _remove(parent, name)
    temporary = b".edit-%d~" % os.getpid()
    writer = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=parent)
    try:
        os.lseek(content, 0, os.SEEK_SET)
        while piece := os.read(content, _CHUNK):
            os.write(writer, piece)
        os.fchmod(writer, mode)
        os.utime(writer, ns=(modified_ns, modified_ns))
    finally:
        os.close(writer)
    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


def _is_same_file(parent: int, name: bytes, mode: int, content: int) -> bool:
    before = _find_mode(parent, name)
    return stat.S_ISREG(before) and stat.S_IMODE(before) == mode and _has_content(parent, name, content)


def _has_content(parent: int, name: bytes, content: int) -> bool:
    try:
        reader = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return False
    try:
        if os.fstat(reader).st_size != os.fstat(content).st_size:
            return False
        os.lseek(content, 0, os.SEEK_SET)
        while True:
            here, there = os.read(reader, _CHUNK), os.read(content, _CHUNK)
            if here != there:
                return False
            if not here:
                return True
    finally:
        os.close(reader)
