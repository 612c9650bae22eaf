"""The file system that a command sees: built in pid 1 of the box, then made the root.

The root is a fresh, small tmpfs. Top-level directories of the host are attached as read-only overlays, except those
that are fresh (`FRESH_DIRECTORIES`) or hold homes. Then follow toolchains and the cache below a fresh home, the
workspace as an overlay, and covers over what is hidden from the command. Everything visible is opened before the root
changes, and attached after (`MountPlan`): no link of the host leads outside, and a workspace may be in a directory
that is fresh. All is read-only that is not in `MountPlan.writable`.

The host's directories themselves are never attached: a read-only directory does not prevent a connection to a unix
socket or a write into a pipe. In an overlay every file has its own inode, so no process listens on such a name. As root
the overlays access their lower directories with the rights of a user who owns nothing, so what is not readable by
everybody is not readable by the command.

Masked files are hidden by a layer between the workspace and the pending layers, with an empty, unreadable file for
each. Unlike a cover, which is a mount, a mask lets its directory be deleted: `rm -rf` of an ignored directory, `git
clean -fdx` and installers work, and their deletions wait for the review. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import contextlib
import os
import stat

from core.filesystem.mount_table import read_mounts
from core.sandbox.inside import kernel, mounts
from core.sandbox.inside.mounts import COVERS, MountPlan, cover_path, make_mount_point

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from core.sandbox.inside.messages import NamespaceLaunch, OverlayRoot

_LOCKED_DOWN = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEVICES
# These have no sockets, and overlayfs may not support them.
_WITHOUT_SOCKETS = frozenset(
    {b"vfat", b"exfat", b"msdos", b"ntfs3", b"iso9660", b"udf", b"squashfs", b"erofs", b"cramfs"}
)
_MOST_PARTS = 5_000  # entries that a directory with mounts in it may be split into
FRESH_DIRECTORIES = frozenset({b"dev", b"home", b"lost+found", b"proc", b"root", b"run", b"sys", b"tmp"})
DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
DEVICE_LINKS = ((b"fd", b"/proc/self/fd"), (b"stdin", b"fd/0"), (b"stdout", b"fd/1"), (b"stderr", b"fd/2"))
KERNEL_SECRETS = (b"/proc/kcore", b"/proc/keys", b"/proc/kmsg", b"/proc/timer_list", b"/proc/sysrq-trigger")
_SCRATCH = b"dev/.scratch"
_SKELETON_SIZE = 16 << 20


def build_root(message: NamespaceLaunch, submounts: list[tuple[bytes, int]]) -> None:
    """Build the root of this process. `submounts`: paths and descriptors of the mounts inside the workspace."""
    with default_umask():
        _build_root(message, submounts)


def _build_root(message: NamespaceLaunch, submounts: list[tuple[bytes, int]]) -> None:
    kernel.make_mounts_private()
    old_root = os.open(b"/", os.O_PATH | os.O_DIRECTORY)
    plan, devices = MountPlan(), list(clone_devices())
    enter_new_root()
    attach_scratch(message["scratch"])
    needed_paths = (message["workspace"], message["home"], *message["readable"])
    overlays = create_host_overlays(*needed_paths, hidden=message["hidden"])
    plan_top_level(plan, overlays)
    for path in message["readable"]:
        plan_readable(plan, overlays, path)
    plan_cache(message, plan)
    plan_writable(message, plan)
    plan_fresh_directories(message, plan)
    plan_repository(message, plan, message["owner"])
    plan_workspace(message, plan, overlays, submounts)
    kernel.pivot_root_here()
    plan.apply()
    populate_devices(devices)
    mount_proc(message)
    leave_old_root(old_root)
    make_read_only(plan.writable)


def build_overlay_root(root: OverlayRoot, scratch: int, submounts: list[tuple[bytes, int]]) -> None:
    """Build a root of this process for bubblewrap to bind: the host's directories as a command sees them, the workspace
    with its layers, and the host's own /proc and /dev, which bubblewrap replaces. Nothing is fresh or covered in it
    yet."""
    with default_umask():
        _build_overlay_root(root, scratch, submounts)


@contextlib.contextmanager
def default_umask() -> Iterator[None]:
    """Create files and directories with the umask 022. The user's umask could lock the command's user, another one if
    the program runs as root, out of the new root."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _build_overlay_root(root: OverlayRoot, scratch: int, submounts: list[tuple[bytes, int]]) -> None:
    kernel.make_mounts_private()
    old_root = os.open(b"/", os.O_PATH | os.O_DIRECTORY)
    plan = MountPlan()
    enter_new_root()
    attach_scratch(scratch)
    shared_paths = [path for path in (root["cache"], root["temporary"]) if path]
    overlays = create_host_overlays(root["workspace"], *shared_paths, *root["readable"])
    plan_top_level(plan, overlays)
    plan.add_mount(mounts.create_tmpfs(_SKELETON_SIZE, "1777"), b"/var/tmp")
    for name in FRESH_DIRECTORIES - {b"dev", b"proc"}:
        if os.path.isdir(b"/" + name):
            plan.add_directory(b"/" + name, 0o755)
    for path in root["readable"]:
        plan_readable(plan, overlays, path)
    for path in shared_paths:
        plan.add_mount(kernel.clone_mount(path), path, is_needed=True)
    for path, _ in root["writable"]:
        plan.add_mount(kernel.clone_mount(path), path, is_needed=True)
    plan_repository(root, plan)
    plan_workspace_overlay(root, plan)
    plan_submounts(plan, overlays, submounts)
    plan.add_mount(kernel.clone_mount(b"/proc"), b"/proc", is_needed=True)
    plan.add_mount(kernel.clone_mount(b"/dev"), b"/dev", is_needed=True)
    kernel.pivot_root_here()
    plan.apply()
    leave_old_root(old_root)


def leave_old_root(old_root: int) -> None:
    os.fchdir(old_root)
    kernel.unmount(b".")
    os.chdir(b"/")
    os.close(old_root)


def create_host_overlays(*needed_paths: bytes, hidden: Iterable[bytes] = ()) -> HostOverlays:
    """Return the `HostOverlays` in the directory that becomes the root; see there."""
    nothing = _SCRATCH + b"/nothing"
    os.mkdir(nothing, 0o755)
    return HostOverlays(nothing, [os.path.realpath(path) for path in needed_paths if path], hidden)


def plan_top_level(plan: MountPlan, overlays: HostOverlays) -> None:
    """Plan the host's directories, and links such as `bin -> usr/bin`."""
    with os.scandir(b"/") as entries:
        for entry in entries:
            if entry.is_symlink():
                plan.add_link(entry.path, os.readlink(entry.path))
            elif entry.name not in FRESH_DIRECTORIES and entry.is_dir(follow_symlinks=False):
                overlays.plan_path(plan, entry.path)


def plan_readable(plan: MountPlan, overlays: HostOverlays, path: bytes) -> None:
    """Plan a toolchain or a directory that the user added. A missing one is omitted."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        overlays.plan_path(plan, path, is_private=True)


def plan_cache(message: NamespaceLaunch, plan: MountPlan) -> None:
    if message["cache"]:
        plan_shared(message, plan, message["cache"], os.path.realpath(message["home"]) + b"/.cache")


def plan_temporary(message: NamespaceLaunch, plan: MountPlan) -> None:
    """Plan /tmp, where it lasts longer than the command."""
    if message["temporary"]:
        plan_shared(message, plan, message["temporary"], b"/tmp")


def plan_shared(message: NamespaceLaunch, plan: MountPlan, path: bytes, target: bytes) -> None:
    """Plan a directory that outlasts the command; it changes its owner once, since it may be large."""
    if os.stat(path).st_uid == 0:
        change_owner_below(path, message["owner"])
    mount = kernel.clone_mount(path)
    kernel.set_mount_attributes(mount, b"", add=kernel.NO_SUID | kernel.NO_DEVICES)
    plan.add_mount(mount, target, is_writable=True)


def plan_writable(message: NamespaceLaunch, plan: MountPlan) -> None:
    """Plan directories that the command may change, under the paths where it expects them."""
    for path, target in message["writable"]:
        change_owner_below(path, message["owner"])
        mount = kernel.clone_mount(path)
        kernel.set_mount_attributes(mount, b"", add=kernel.NO_SUID | kernel.NO_DEVICES)
        plan.add_mount(mount, os.path.realpath(target), is_writable=True)


def enter_new_root() -> None:
    """Attach the tmpfs that will be the root, and make it the working directory."""
    skeleton = mounts.create_tmpfs(_SKELETON_SIZE, "0755")
    os.fchdir(skeleton)
    kernel.attach_mount(skeleton, b"/")


def attach_scratch(size: int) -> None:
    """Attach one tmpfs for all fresh and writable directories, so that one number bounds them."""
    for directory in (b"dev", _SCRATCH, COVERS):
        os.mkdir(directory, 0o755)
    kernel.attach_mount(mounts.create_tmpfs(size, "0700"), _SCRATCH)


def plan_fresh_directories(message: NamespaceLaunch, plan: MountPlan) -> None:
    home = os.path.realpath(message["home"])
    if home != message["home"]:
        plan.add_link(message["home"], home)
    plan_temporary(message, plan)
    targets = [
        *([] if message["temporary"] else [(b"/tmp", 0o1777)]),
        (b"/var/tmp", 0o1777),
        (b"/run", 0o755),
        (b"/dev/shm", 0o1777),
        (home, 0o700),
    ]
    for number, (target, mode) in enumerate(targets):
        inside = b"%s/%d" % (_SCRATCH, number)
        os.mkdir(inside)
        change_owner(inside, message["owner"])
        os.chmod(inside, mode)
        if target == home and message["git_settings"]:
            write_file(inside + b"/.gitconfig", message["git_settings"], message["owner"])
        plan.add_mount(kernel.clone_mount(inside, recursive=False), target, is_writable=True)


def plan_workspace(
    message: NamespaceLaunch, plan: MountPlan, overlays: HostOverlays, submounts: list[tuple[bytes, int]]
) -> None:
    plan_workspace_overlay(message, plan, message["owner"])
    plan_submounts(plan, overlays, submounts)
    for path in message["hidden"]:
        plan.add_cover(path)
    for relative in message["withheld"]:
        plan.add_cover(message["workspace"] + b"/" + relative)


def plan_workspace_overlay(
    message: NamespaceLaunch | OverlayRoot, plan: MountPlan, owner: tuple[int, int] | None = None
) -> None:
    """Plan the workspace with its layers over it; `owner` gets the topmost, which receives the changes."""
    upper, work, workspace, lowers = message["upper"], message["work"], message["workspace"], message["lowers"]
    if not upper:
        upper, work = _SCRATCH + b"/upper", _SCRATCH + b"/work"
        for directory in (upper, work):
            os.mkdir(directory)
        os.chmod(upper, stat.S_IMODE(os.stat(workspace).st_mode))
    change_owner(upper, owner)
    for lower in lowers:
        change_owner_below(lower, owner)
    if message["masked"]:
        directory = message["masks"] or _SCRATCH + b"/masks"
        create_mask_layer(directory, workspace, message["masked"])
        lowers = [*lowers, directory]
    plan.add_mount(
        mounts.create_overlay([*lowers, workspace], upper, work), workspace, is_needed=True, is_writable=True
    )


def plan_repository(
    message: NamespaceLaunch | OverlayRoot, plan: MountPlan, owner: tuple[int, int] | None = None
) -> None:
    """Plan git's directory outside of the workspace, with a layer over it that is dropped. If overlayfs does not
    support its file system, it remains read-only."""
    repository = message["repository"]
    if not repository:
        return
    layer = message["repository_layer"] or _SCRATCH + b"/repository"
    upper, work = layer + b"/upper", layer + b"/work"
    for directory in (layer, upper, work):
        os.mkdir(directory)
        change_owner(directory, owner)
    os.chmod(upper, stat.S_IMODE(os.stat(repository).st_mode))
    with contextlib.suppress(OSError):
        plan.add_mount(mounts.create_overlay([repository], upper, work), repository, is_writable=True)


def plan_submounts(plan: MountPlan, overlays: HostOverlays, submounts: list[tuple[bytes, int]]) -> None:
    """Plan the mounts inside the workspace, read-only. Nested mounts are not followed."""
    for number, (path, mount) in enumerate(submounts):
        if not stat.S_ISDIR(os.fstat(mount).st_mode):
            kernel.set_mount_attributes(mount, b"", add=_LOCKED_DOWN, recursive=True)
            plan.add_mount(mount, path)
            continue
        mount_point = b"%s/inside%d" % (_SCRATCH, number)
        os.mkdir(mount_point)
        kernel.attach_mount(mount, mount_point)
        descriptor = os.open(mount_point, os.O_PATH | os.O_DIRECTORY)
        plan.add_mount(overlays.create_overlay(descriptor, for_all=False), path)
        os.close(descriptor)


def clone_devices() -> Iterator[tuple[bytes, int]]:
    for name in DEVICES:
        path = b"/dev/" + name
        if os.path.exists(path):
            yield path, kernel.clone_mount(path, recursive=False)


def populate_devices(devices: list[tuple[bytes, int]]) -> None:
    """Fill /dev with the harmless devices of the host, and a new devpts instance."""
    os.makedirs(b"/dev/pts", exist_ok=True)
    for path, device in devices:
        make_mount_point(path, like=device)
        kernel.attach_mount(device, path)
    for name, target in (*DEVICE_LINKS, (b"ptmx", b"pts/ptmx")):
        os.symlink(target, b"/dev/" + name)
    options = [(b"ptmxmode", b"0666"), (b"mode", b"0620")]
    kernel.attach_mount(kernel.create_mount(b"devpts", options, kernel.NO_SUID | kernel.NO_EXEC), b"/dev/pts")


def mount_proc(message: NamespaceLaunch) -> None:
    """Mount a /proc of the box's processes; the kernel refuses that once the old one is unmounted."""
    os.makedirs(b"/proc", exist_ok=True)
    attributes = kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_EXEC
    kernel.attach_mount(kernel.create_mount(b"proc", [], attributes), b"/proc")
    kernel.write_setting(b"/proc/sys/user/max_user_namespaces", b"0")
    if message["processes_by_pid"]:
        kernel.write_setting(b"/proc/sys/kernel/pid_max", b"%d" % message["processes_by_pid"])
    for path in KERNEL_SECRETS:
        cover_path(path)


def make_read_only(writable: list[bytes]) -> None:
    """Make everything read-only except the `writable` mounts."""
    kernel.unmount(b"/" + _SCRATCH)
    os.rmdir(b"/" + _SCRATCH)
    kernel.set_mount_attributes(kernel.AT_FDCWD, b"/", add=kernel.READ_ONLY | kernel.NO_SUID, recursive=True)
    for path in (*writable, b"/dev/pts"):
        kernel.set_mount_attributes(kernel.AT_FDCWD, path, clear=kernel.READ_ONLY)


def write_file(path: bytes, content: bytes, owner: tuple[int, int] | None) -> None:
    """Write a new file that belongs to the command's user."""
    with open(path, "xb") as file:
        file.write(content)
    change_owner(path, owner)


def change_owner(path: bytes, owner: tuple[int, int] | None) -> None:
    """Change the owner of one file or directory; without `owner` nothing is done."""
    if owner:
        os.chown(path, *owner, follow_symlinks=False)


def change_owner_below(directory: bytes, owner: tuple[int, int] | None) -> None:
    """Change the owner of a directory, of the directories below it, and of root's files in them."""
    waiting = [directory] if owner else []
    while waiting:
        path = waiting.pop()
        change_owner(path, owner)
        with os.scandir(path) as entries:
            for entry in entries:
                stats = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(stats.st_mode):
                    waiting.append(entry.path)
                elif stats.st_uid == 0:
                    change_owner(entry.path, owner)


class HostOverlays:
    """Overlays of the host's directories, to be attached by a `MountPlan`.

    `nothing`: the path of an empty directory in this mount namespace. `needed_paths`: absolute, real paths of future
    mount points. `hidden`: paths that are left out.
    """

    def __init__(self, nothing: bytes, needed_paths: Iterable[bytes], hidden: Iterable[bytes]) -> None:
        self._hidden = frozenset(hidden)
        self._nothing = os.open(nothing, os.O_PATH | os.O_DIRECTORY)
        self._mounted = dict(read_mounts())
        self._nobody = kernel.find_nobody_id() if os.geteuid() == 0 else 0
        self._split_points = {
            *self._mounted,
            *(path for path in needed_paths if self._nobody and not _is_traversable(path)),
        }
        self._count = 0

    def plan_path(self, plan: MountPlan, path: bytes, *, is_private: bool = False) -> None:
        """Plan the directory or file with an absolute path under the same path; links are followed.

        Other kinds of files are omitted, and so are file systems that overlayfs does not support. `is_private`: also
        show files that are not readable by everybody. Raises OSError if the host's root file system is not supported.
        """
        self._plan_opened(plan, os.open(path, os.O_PATH), path, for_all=self._nobody > 0 and not is_private)

    def _plan_opened(self, plan: MountPlan, descriptor: int, path: bytes, *, for_all: bool) -> None:
        """Plan an opened file or directory, and close its descriptor."""
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                self._plan_file(plan, descriptor, path)
            elif stat.S_ISDIR(mode):
                self._plan_directory(plan, descriptor, path, for_all=for_all)
        finally:
            os.close(descriptor)

    def create_overlay(self, directory: int, *, for_all: bool) -> int:
        """Create the overlay of one directory, which must have no mounts in it; return its descriptor."""
        lowers = [b"/proc/self/fd/%d" % descriptor for descriptor in (directory, self._nothing)]
        return mounts.create_read_only_overlay(lowers, rights_of=self._nobody if for_all else 0)

    def _plan_file(self, plan: MountPlan, descriptor: int, path: bytes) -> None:
        mount = kernel.clone_mount(b"/proc/self/fd/%d" % descriptor, recursive=False)
        kernel.set_mount_attributes(mount, b"", add=_LOCKED_DOWN)
        plan.add_mount(mount, path)

    def _plan_directory(self, plan: MountPlan, descriptor: int, path: bytes, *, for_all: bool) -> None:
        real = os.readlink(b"/proc/self/fd/%d" % descriptor)
        inside = real.rstrip(b"/") + b"/"
        if any(point.startswith(inside) for point in self._split_points):
            self._plan_entries(plan, real, path, for_all=for_all)
            return
        try:
            plan.add_mount(self.create_overlay(descriptor, for_all=for_all), path)
        except OSError:
            kind = self._find_file_system(real)
            if kind in _WITHOUT_SOCKETS:
                self._plan_file(plan, descriptor, path)
            elif kind == self._find_file_system(b"/"):
                raise
            else:
                plan.add_directory(path, 0o755)

    def _find_file_system(self, real: bytes) -> bytes:
        above = [point for point in self._mounted if (real + b"/").startswith(point.rstrip(b"/") + b"/")]
        return self._mounted[max(above, key=len)] if above else b""

    def _plan_entries(self, plan: MountPlan, real: bytes, path: bytes, *, for_all: bool) -> None:
        """Plan a directory entry by entry: the kernel refuses an overlay that would uncover the directories below
        mounts, and in a directory that is not open to everybody nothing could be mounted."""
        mode = stat.S_IMODE(os.stat(real).st_mode)
        plan.add_directory(path, mode)
        if for_all and not mode & stat.S_IXOTH:
            return
        for entry in _scan_directory(real):
            self._count += 1
            if self._count > _MOST_PARTS:
                raise OSError(7, f"more than {_MOST_PARTS:,} places beside mounts, the last one {os.fsdecode(real)}")
            target = path + b"/" + entry.name
            if target in self._hidden:  # a cover would lie below the mounts in it
                continue
            if entry.is_symlink():
                plan.add_link(target, os.readlink(entry.path))
            elif not for_all or entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                try:
                    descriptor = os.open(entry.path, os.O_PATH | os.O_NOFOLLOW)
                except OSError:
                    continue
                self._plan_opened(plan, descriptor, target, for_all=for_all)


def _is_traversable(path: bytes) -> bool:
    above = os.path.dirname(path)
    while above != b"/":
        if os.path.isdir(above) and not os.stat(above).st_mode & stat.S_IXOTH:
            return False
        above = os.path.dirname(above)
    return True


def _scan_directory(directory: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError:
        return


def create_mask_layer(layer: bytes, workspace: bytes, masked_paths: Sequence[bytes]) -> None:
    """Make the mask layer in the directory `layer`, which must not exist. A path that is missing or no file gets no
    mask.

    Its directories have the modes, owners and times of the workspace's, since they are visible in the overlay.
    """
    os.mkdir(layer, 0o700)
    directories = {b""}
    for path in masked_paths:
        try:
            if not stat.S_ISREG(os.lstat(os.path.join(workspace, path)).st_mode):
                continue
        except OSError:
            continue
        _make_parents(layer, path, directories)
        os.close(os.open(os.path.join(layer, path), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0))
    for path in sorted(directories, reverse=True):  # inner ones first: creating an entry changes the directory's time
        _copy_status(os.path.join(layer, path), os.path.join(workspace, path))


def _make_parents(layer: bytes, path: bytes, directories: set[bytes]) -> None:
    above = os.path.dirname(path)
    missing = []
    while above not in directories:
        missing.append(above)
        above = os.path.dirname(above)
    for parent in reversed(missing):
        os.mkdir(os.path.join(layer, parent), 0o700)
        directories.add(parent)


def _copy_status(target: bytes, source: bytes) -> None:
    stats = os.lstat(source)
    if os.geteuid() == 0:
        os.chown(target, stats.st_uid, stats.st_gid)
    os.chmod(target, stat.S_IMODE(stats.st_mode))
    os.utime(target, ns=(stats.st_atime_ns, stats.st_mtime_ns))
