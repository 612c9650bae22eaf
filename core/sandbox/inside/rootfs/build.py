"""The file system that a command sees: built in pid 1 of the box, then made the root (SAFETY D23-D26).

The root is a fresh, small tmpfs. Top-level directories of the host are attached as read-only overlays
(`host_overlays`), except those that are fresh (`FRESH_DIRECTORIES`) or hold homes; then come toolchains and the cache
below a fresh home, the workspace as an overlay, and covers over what does not exist for the command. What is shown is
taken by descriptor before the root changes, and attached after (`mount_plan`): no link of the host leads outside, and a
workspace may lie in a directory that is fresh. All is read-only that is not named in `MountPlan.writable`.
Runs in `python -I -S -B`.
"""

from __future__ import annotations

import contextlib
import os
import stat

from core.sandbox.inside import kernel
from core.sandbox.inside.rootfs import mounts
from core.sandbox.inside.rootfs.host_overlays import HostOverlays
from core.sandbox.inside.rootfs.mask_layer import create_mask_layer
from core.sandbox.inside.rootfs.mount_plan import COVERS, MountPlan, cover_path, make_mount_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.sandbox.inside.messages import NamespaceLaunch, OverlayRoot

FRESH_DIRECTORIES = frozenset({b"dev", b"home", b"lost+found", b"proc", b"root", b"run", b"sys", b"tmp"})
DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
DEVICE_LINKS = ((b"fd", b"/proc/self/fd"), (b"stdin", b"fd/0"), (b"stdout", b"fd/1"), (b"stderr", b"fd/2"))
KERNEL_SECRETS = (b"/proc/kcore", b"/proc/keys", b"/proc/kmsg", b"/proc/timer_list", b"/proc/sysrq-trigger")
_SCRATCH = b"dev/.scratch"
_SKELETON_SIZE = 16 << 20
_LOCKED_DOWN = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEVICES


def build_root(message: NamespaceLaunch, submounts: list[tuple[bytes, int]]) -> None:
    """Build the root of this process. `submounts`: what is mounted inside the workspace, taken by descriptor."""
    with masking_nothing():
        _build_root(message, submounts)


def _build_root(message: NamespaceLaunch, submounts: list[tuple[bytes, int]]) -> None:
    kernel.make_mounts_private()
    old_root = os.open(b"/", os.O_PATH | os.O_DIRECTORY)
    plan, devices = MountPlan(), list(clone_devices())
    enter_new_root()
    attach_scratch(message["scratch"])
    overlays = create_host_overlays(message["workspace"], message["home"], *message["readable"])
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
    """Build a root of this process for bubblewrap to bind: the host's directories as a command sees them, the
    workspace with its layers, and from the host itself what bubblewrap makes its own of. Nothing is fresh or covered
    in it yet."""
    with masking_nothing():
        _build_overlay_root(root, scratch, submounts)


@contextlib.contextmanager
def masking_nothing() -> Iterator[None]:
    """Let what is made meanwhile have the mode that is named for it. The user's umask is about files of theirs: it
    would keep the command's user, another one where the program runs as root, out of the root that is made for it."""
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
    overlays = create_host_overlays(root["workspace"], root["cache"], *root["readable"])
    plan_top_level(plan, overlays)
    plan.add_mount(mounts.create_tmpfs(_SKELETON_SIZE, "1777"), b"/var/tmp")
    for name in FRESH_DIRECTORIES - {b"dev", b"proc"}:
        if os.path.isdir(b"/" + name):
            plan.add_directory(b"/" + name, 0o755)
    for path in root["readable"]:
        plan_readable(plan, overlays, path)
    for path in [root["cache"]] if root["cache"] else []:
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


def create_host_overlays(*needed_paths: bytes) -> HostOverlays:
    """Return the `HostOverlays` in the directory that becomes the root."""
    nothing = _SCRATCH + b"/nothing"
    os.mkdir(nothing, 0o755)
    return HostOverlays(nothing, [os.path.realpath(path) for path in needed_paths if path])


def plan_top_level(plan: MountPlan, overlays: HostOverlays) -> None:
    """Plan the host's directories, and links such as `bin -> usr/bin`."""
    with os.scandir(b"/") as entries:
        for entry in entries:
            if entry.is_symlink():
                plan.add_link(entry.path, os.readlink(entry.path))
            elif entry.name not in FRESH_DIRECTORIES and entry.is_dir(follow_symlinks=False):
                overlays.plan_path(plan, entry.path)


def plan_readable(plan: MountPlan, overlays: HostOverlays, path: bytes) -> None:
    """Plan a toolchain or what the user added. What is not there is left out."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        overlays.plan_path(plan, path, is_private=True)


def plan_cache(message: NamespaceLaunch, plan: MountPlan) -> None:
    if message["cache"]:
        if os.stat(message["cache"]).st_uid == 0:
            change_owner_below(message["cache"], message["owner"])
        mount = kernel.clone_mount(message["cache"])
        kernel.set_mount_attributes(mount, b"", add=kernel.NO_SUID | kernel.NO_DEVICES)
        plan.add_mount(mount, os.path.realpath(message["home"]) + b"/.cache", is_writable=True)


def plan_writable(message: NamespaceLaunch, plan: MountPlan) -> None:
    """Plan directories that the command may change, at the places where it looks for them."""
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
    """Attach one tmpfs for all that is fresh and writable, so that one number bounds it."""
    for directory in (b"dev", _SCRATCH, COVERS):
        os.mkdir(directory, 0o755)
    kernel.attach_mount(mounts.create_tmpfs(size, "0700"), _SCRATCH)


def plan_fresh_directories(message: NamespaceLaunch, plan: MountPlan) -> None:
    home = os.path.realpath(message["home"])
    if home != message["home"]:
        plan.add_link(message["home"], home)
    places = [(b"/tmp", 0o1777), (b"/var/tmp", 0o1777), (b"/run", 0o755), (b"/dev/shm", 0o1777), (home, 0o700)]
    for number, (target, mode) in enumerate(places):
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
    """Plan the workspace with its layers over it; `owner` gets the topmost, which takes the changes."""
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
    """Plan git's directory outside of the workspace, with a layer over it that is dropped. One that no overlay takes
    stays as the host's directories are shown."""
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
    """Plan what was mounted inside the workspace, read-only. Mounts in these are not followed."""
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
    """Fill /dev: the harmless devices of the host, and terminals that are not the user's."""
    os.makedirs(b"/dev/pts", exist_ok=True)
    for path, device in devices:
        make_mount_point(path, like=device)
        kernel.attach_mount(device, path)
    for name, target in (*DEVICE_LINKS, (b"ptmx", b"pts/ptmx")):
        os.symlink(target, b"/dev/" + name)
    options = [(b"ptmxmode", b"0666"), (b"mode", b"0620")]
    kernel.attach_mount(kernel.create_mount(b"devpts", options, kernel.NO_SUID | kernel.NO_EXEC), b"/dev/pts")


def mount_proc(message: NamespaceLaunch) -> None:
    """Mount a /proc that knows the box's processes only; before the old one is gone, or the kernel refuses."""
    os.makedirs(b"/proc", exist_ok=True)
    attributes = kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_EXEC
    kernel.attach_mount(kernel.create_mount(b"proc", [], attributes), b"/proc")
    kernel.write_setting(b"/proc/sys/user/max_user_namespaces", b"0")
    if message["processes_by_pid"]:
        kernel.write_setting(b"/proc/sys/kernel/pid_max", b"%d" % message["processes_by_pid"])
    for path in KERNEL_SECRETS:
        cover_path(path)


def make_read_only(writable: list[bytes]) -> None:
    """Make everything read-only but what is meant to be written."""
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
    """Give away one file or directory; without an owner nothing is done."""
    if owner:
        os.chown(path, *owner, follow_symlinks=False)


def change_owner_below(directory: bytes, owner: tuple[int, int] | None) -> None:
    """Give away a directory with all in and below it that is root's."""
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
