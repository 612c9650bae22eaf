"""The file system that a command sees: built in pid 1 of the box, then made the root (SAFETY D23-D26).

The root is a fresh, small tmpfs. Top-level directories of the machine are laid into it as read-only overlays (`trees`),
all but those that are fresh (`FRESH`) or hold homes; then come toolchains and the cache below a fresh home, the
workspace as an overlay, and covers over what does not exist for the command. What is shown is taken by descriptor
before the root changes, and attached after: no link of the host is followed to outside, and a workspace may lie in a
directory that is fresh. All is read-only that is not named in `Plan.writable`. Runs in `python -I -S`.
"""

from __future__ import annotations

import contextlib
import os
import stat

from core.sandbox import kernel, mounts
from core.sandbox.machine.owning import give, give_all
from core.sandbox.machine.trees import Trees
from core.sandbox.masking.layer import lay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from core.sandbox.launcher import Ground
    from core.sandbox.order import Order

FRESH = frozenset({b"dev", b"home", b"lost+found", b"proc", b"root", b"run", b"sys", b"tmp"})
DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
DEVICE_LINKS = ((b"fd", b"/proc/self/fd"), (b"stdin", b"fd/0"), (b"stdout", b"fd/1"), (b"stderr", b"fd/2"))
KERNEL_SECRETS = (b"/proc/kcore", b"/proc/keys", b"/proc/kmsg", b"/proc/timer_list", b"/proc/sysrq-trigger")
_SCRATCH, _COVERS = b"dev/.scratch", b"dev/.covers"
_SKELETON_SIZE = 16 << 20
_LOCKED_DOWN = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEVICES


class Plan:
    """What is going to be mounted where: pairs of a target and the step that mounts there, outer ones first."""

    def __init__(self) -> None:
        self._steps: list[tuple[bytes, Callable[[bytes], None]]] = []
        self.writable: list[bytes] = []

    def mount(self, descriptor: int, target: bytes, *, needed: bool = False, writable: bool = False) -> None:
        """Attach a mount that was taken before. One that is not needed is left out where there is no place for it."""

        def step(place: bytes) -> None:
            try:
                make_place(place, like=descriptor)
                kernel.attach(descriptor, place)
            except OSError:
                if needed:
                    raise
                os.close(descriptor)
                return
            if writable:
                self.writable.append(place)

        self._steps.append((target, step))

    def directory(self, place: bytes, mode: int) -> None:
        """An empty one, where there is a place for it."""

        def step(path: bytes) -> None:
            with contextlib.suppress(OSError):
                os.makedirs(path, 0o755, exist_ok=True)
                os.chmod(path, mode)

        self._steps.append((place, step))

    def link(self, place: bytes, target: bytes) -> None:
        self._steps.append((place, lambda path: make_link(path, target)))

    def cover(self, target: bytes) -> None:
        self._steps.append((target, cover))

    def carry_out(self) -> None:
        for target, step in sorted(self._steps, key=lambda each: each[0].rstrip(b"/").count(b"/")):
            step(target)


def build(order: Order, submounts: list[tuple[bytes, int]]) -> None:
    """Make the view this process's root. `submounts`: what is mounted inside the workspace, taken by descriptor."""
    kernel.make_mounts_private()
    old_root = os.open(b"/", os.O_PATH | os.O_DIRECTORY)
    plan, devices = Plan(), list(host_devices())
    enter_skeleton()
    attach_scratch(order["scratch"])
    trees = trees_over_nothing(order["workspace"], order["home"], *order["readable"])
    show_top_level(plan, trees)
    for path in order["readable"]:
        show_chosen(plan, trees, path)
    bind_cache(order, plan)
    bind_fresh(order, plan)
    bind_workspace(order, plan, trees, submounts)
    kernel.pivot_root_here()
    plan.carry_out()
    fill_devices(devices)
    mount_proc(order)
    os.fchdir(old_root)
    kernel.unmount_here()
    os.chdir(b"/")
    os.close(old_root)
    lock(plan.writable)


def build_ground(ground: Ground, scratch: int, submounts: list[tuple[bytes, int]]) -> None:
    """Make a root for bubblewrap this process's: the machine's directories as a command sees them, the workspace with
    its layers, and from the machine itself what bubblewrap makes its own of. Nothing is fresh or covered in it yet."""
    kernel.make_mounts_private()
    old_root = os.open(b"/", os.O_PATH | os.O_DIRECTORY)
    plan = Plan()
    enter_skeleton()
    attach_scratch(scratch)
    trees = trees_over_nothing(ground["workspace"], ground["cache"], *ground["readable"])
    show_top_level(plan, trees)
    plan.mount(mounts.tmpfs(_SKELETON_SIZE, "1777"), b"/var/tmp")
    for name in FRESH - {b"dev", b"proc"}:
        if os.path.isdir(b"/" + name):
            plan.directory(b"/" + name, 0o755)
    for path in ground["readable"]:
        show_chosen(plan, trees, path)
    if ground["cache"]:
        plan.mount(kernel.clone_mount(ground["cache"]), ground["cache"], needed=True)
    lay_workspace(ground, plan)
    show_submounts(plan, trees, submounts)
    plan.mount(kernel.clone_mount(b"/proc"), b"/proc", needed=True)
    plan.mount(kernel.clone_mount(b"/dev"), b"/dev", needed=True)
    kernel.pivot_root_here()
    plan.carry_out()
    os.fchdir(old_root)
    kernel.unmount_here()
    os.chdir(b"/")
    os.close(old_root)


def trees_over_nothing(*needed: bytes) -> Trees:
    """In the directory that becomes the root. See `Trees`."""
    nothing = _SCRATCH + b"/nothing"
    os.mkdir(nothing, 0o755)
    return Trees(nothing, [os.path.realpath(path) for path in needed if path])


def show_top_level(plan: Plan, trees: Trees) -> None:
    """The machine's directories, and links such as `bin -> usr/bin`."""
    with os.scandir(b"/") as entries:
        for entry in entries:
            if entry.is_symlink():
                plan.link(entry.path, os.readlink(entry.path))
            elif entry.name not in FRESH and entry.is_dir(follow_symlinks=False):
                trees.show(plan, entry.path)


def show_chosen(plan: Plan, trees: Trees, path: bytes) -> None:
    """A toolchain or what the user added. What is not there is left out."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        trees.show(plan, path, own=True)


def bind_cache(order: Order, plan: Plan) -> None:
    if order["cache"]:
        if os.stat(order["cache"]).st_uid == 0:
            give_all(order["cache"], order["owner"])
        taken = kernel.clone_mount(order["cache"])
        kernel.set_attributes(taken, b"", add=kernel.NO_SUID | kernel.NO_DEVICES)
        plan.mount(taken, os.path.realpath(order["home"]) + b"/.cache", writable=True)


def enter_skeleton() -> None:
    """Attach the tmpfs that will be the root, and make it the working directory."""
    skeleton = mounts.tmpfs(_SKELETON_SIZE, "0755")
    os.fchdir(skeleton)
    kernel.attach(skeleton, b"/")


def attach_scratch(size: int) -> None:
    """One tmpfs for all that is fresh and writable, so that one number bounds it."""
    for place in (b"dev", _SCRATCH, _COVERS):
        os.mkdir(place, 0o755)
    kernel.attach(mounts.tmpfs(size, "0700"), _SCRATCH)


def bind_fresh(order: Order, plan: Plan) -> None:
    home = os.path.realpath(order["home"])
    if home != order["home"]:
        plan.link(order["home"], home)
    places = [(b"/tmp", 0o1777), (b"/var/tmp", 0o1777), (b"/run", 0o755), (b"/dev/shm", 0o1777), (home, 0o700)]
    for number, (place, mode) in enumerate(places):
        inside = b"%s/%d" % (_SCRATCH, number)
        os.mkdir(inside)
        give(inside, order["owner"])
        os.chmod(inside, mode)
        plan.mount(kernel.clone_mount(inside, recursive=False), place, writable=True)


def bind_workspace(order: Order, plan: Plan, trees: Trees, submounts: list[tuple[bytes, int]]) -> None:
    lay_workspace(order, plan, order["owner"])
    show_submounts(plan, trees, submounts)
    for path in order["hidden"]:
        plan.cover(path)
    for relative in order["withheld"]:
        plan.cover(order["workspace"] + b"/" + relative)


def lay_workspace(order: Order | Ground, plan: Plan, owner: tuple[int, int] | None = None) -> None:
    """The workspace with its layers over it; `owner` gets the topmost, which takes the changes."""
    upper, work, workspace, lowers = order["upper"], order["work"], order["workspace"], order["lowers"]
    if not upper:
        upper, work = _SCRATCH + b"/upper", _SCRATCH + b"/work"
        for place in (upper, work):
            os.mkdir(place)
        os.chmod(upper, stat.S_IMODE(os.stat(workspace).st_mode))
    give(upper, owner)
    for lower in lowers:
        give_all(lower, owner)
    if order["masked"]:
        place = order["masks"] or _SCRATCH + b"/masks"
        lay(place, workspace, order["masked"])
        lowers = [*lowers, place]
    plan.mount(mounts.overlay([*lowers, workspace], upper, work), workspace, needed=True, writable=True)


def show_submounts(plan: Plan, trees: Trees, submounts: list[tuple[bytes, int]]) -> None:
    """What was mounted inside the workspace, read-only. Mounts in these are not followed."""
    for number, (path, taken) in enumerate(submounts):
        if not stat.S_ISDIR(os.fstat(taken).st_mode):
            kernel.set_attributes(taken, b"", add=_LOCKED_DOWN, recursive=True)
            plan.mount(taken, path)
            continue
        place = b"%s/inside%d" % (_SCRATCH, number)
        os.mkdir(place)
        kernel.attach(taken, place)
        opened = os.open(place, os.O_PATH | os.O_DIRECTORY)
        plan.mount(trees.take(opened, for_all=False), path)
        os.close(opened)


def make_link(place: bytes, target: bytes) -> None:
    """Where there is something, or all is read-only, the link is there already or can't be missed."""
    if os.path.lexists(place):
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        os.symlink(target, place)


def make_place(target: bytes, *, like: int) -> None:
    """A directory or an empty file to mount on. Only fresh places can take one: all else is read-only."""
    if os.path.lexists(target):
        return
    if stat.S_ISDIR(os.fstat(like).st_mode):
        os.makedirs(target, 0o755)
        return
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def cover(target: bytes) -> None:
    """Lay nothing over a file or directory: it can be neither read nor listed. What is not there needs no cover."""
    if not os.path.exists(target):
        return
    place = b"/%s/%d" % (_COVERS, len(os.listdir(b"/" + _COVERS)))
    if os.path.isdir(target):
        os.mkdir(place, 0o755)
    else:
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
    mount = kernel.clone_mount(place)
    try:
        kernel.attach(mount, target)
    except FileNotFoundError:
        os.close(mount)
        if os.path.lexists(target):  # else it went away just now, as sockets do
            raise


def host_devices() -> Iterator[tuple[bytes, int]]:
    for name in DEVICES:
        path = b"/dev/" + name
        if os.path.exists(path):
            yield path, kernel.clone_mount(path, recursive=False)


def fill_devices(devices: list[tuple[bytes, int]]) -> None:
    """A /dev of its own: the harmless devices of the host, and terminals that are not the user's."""
    os.makedirs(b"/dev/pts", exist_ok=True)
    for path, device in devices:
        make_place(path, like=device)
        kernel.attach(device, path)
    for name, target in (*DEVICE_LINKS, (b"ptmx", b"pts/ptmx")):
        os.symlink(target, b"/dev/" + name)
    options = [(b"ptmxmode", b"0666"), (b"mode", b"0620")]
    kernel.attach(kernel.open_file_system(b"devpts", options, kernel.NO_SUID | kernel.NO_EXEC), b"/dev/pts")


def mount_proc(order: Order) -> None:
    """A /proc that knows the box's processes only; before the old one is gone, or the kernel refuses."""
    os.makedirs(b"/proc", exist_ok=True)
    attributes = kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_EXEC
    kernel.attach(kernel.open_file_system(b"proc", [], attributes), b"/proc")
    write_setting(b"/proc/sys/user/max_user_namespaces", 0)
    if order["processes_by_pid"]:
        write_setting(b"/proc/sys/kernel/pid_max", order["processes_by_pid"])
    for path in KERNEL_SECRETS:
        cover(path)


def write_setting(path: bytes, value: int) -> None:
    setting = os.open(path, os.O_WRONLY)
    try:
        os.write(setting, str(value).encode())
    finally:
        os.close(setting)


def lock(writable: list[bytes]) -> None:
    """Nothing can be changed any more but what is meant to be."""
    kernel.unmount(b"/" + _SCRATCH)
    os.rmdir(b"/" + _SCRATCH)
    kernel.set_attributes(kernel.HERE, b"/", add=kernel.READ_ONLY | kernel.NO_SUID, recursive=True)
    for place in (*writable, b"/dev/pts"):
        kernel.set_attributes(kernel.HERE, place, clear=kernel.READ_ONLY)
