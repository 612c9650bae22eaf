"""The tiers that use bubblewrap, for machines where only it may create namespaces.

T2a: bubblewrap mounts the overlay of the workspace itself (0.11 and newer). T2b: our supervisor mounts it, then
bubblewrap isolates the command. T2c: the command gets a copy of the project, mounted over the project's path.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from core.sandbox import host_view
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.host_view import find_credentials
from core.sandbox.inside.messages import FILTER, READY, SETTINGS, STATUS
from core.sandbox.inside.mounts import list_mounts_below
from core.sandbox.inside.root_filesystem import KERNEL_SECRETS, create_mask_layer
from core.sandbox.inside.seccomp import FAMILIES, NETWORK
from core.sandbox.tiers.boxed_process import (
    PreparedLaunch,
    SupervisedBox,
    build_python_command,
    encode_command,
    encode_layers,
    make_scratch_path,
)
from core.sandbox.tiers.dropped_changes import (
    describe_deleted_secrets,
    describe_limits,
    drop_repository_changes,
    get_mask_layer_path,
    get_repository_layer_path,
    remove_masked_changes,
)
from core.sandbox.tiers.project_copy import ProjectCopy, copy_project, move_changes, remove_copy
from core.sandbox.unboxed_run import find_shell

if TYPE_CHECKING:
    from core.sandbox.inside.messages import OverlayRoot, SupervisorLaunch

CANDIDATES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
_FRESH_DIRECTORIES = ("/tmp", "/var/tmp", "/run", "/sys", "/home")
_SCRATCH_SHARES = 6  # /dev/shm, /tmp, /var/tmp, /run, the home, and a temporary layer
_EMPTY_FILE = b"/dev/null"  # mounted over covered files
_UNSHARED_NAMESPACES = ("user", "pid", "net", "ipc", "uts", "cgroup-try")


def find_bwrap(candidates: Iterable[str] = CANDIDATES, *, option: str = "") -> Path | None:
    """Return the system's bubblewrap, None if it has none; never one from PATH, the project or another user.

    With `option`: the first that has this option, else the first of all.
    """
    paths = list(_find_installed(candidates))
    return next((path for path in paths if option in list_options(path)), next(iter(paths), None))


def _find_installed(candidates: Iterable[str]) -> Iterator[Path]:
    for candidate in candidates:
        try:
            info = Path(candidate).stat()
        except OSError:
            continue
        if (
            stat.S_ISREG(info.st_mode)
            and info.st_uid == 0
            and not info.st_mode & 0o022
            and os.access(candidate, os.X_OK)
        ):
            yield Path(candidate)


def list_options(program: Path) -> frozenset[str]:
    """Return the options in the `--help` of this bubblewrap."""
    result = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, env={}, timeout=5)
    return frozenset(word for word in (result.stdout + result.stderr).split() if word.startswith("--"))


class BwrapBox(SupervisedBox):
    """A box of one of the three bubblewrap tiers."""

    def __init__(self, tier: Tier, program: Path, options: frozenset[str], state: Path) -> None:
        super().__init__(tier, state)
        self._program = program
        self._options = options

        # With the host's directories themselves instead of overlays, its unix sockets are reachable.
        self._binds_host_directories = tier is not Tier.BWRAP_MOUNTED

    def _prepare_launch(self, request: BoxRequest) -> PreparedLaunch:
        prepare = {
            Tier.BWRAP_OVERLAY: self._prepare_bwrap_overlay,
            Tier.BWRAP_MOUNTED: self._prepare_own_overlay,
            Tier.BWRAP_COPY: self._prepare_copy,
        }[self._tier]
        return prepare(request, make_scratch_path(self._state))

    def _prepare_bwrap_overlay(self, request: BoxRequest, scratch: Path) -> PreparedLaunch:
        """Prepare T2a."""
        masks = get_mask_layer_path(request.upper) if request.upper else scratch
        if request.masked:
            create_mask_layer(
                os.fsencode(masks), os.fsencode(request.workspace), [os.fsencode(path) for path in request.masked]
            )
        sources = [request.workspace, *([masks] if request.masked else []), *reversed(request.lowers)]  # bottom first
        layers = [word for source in sources for word in ("--overlay-src", str(source))]
        workspace = str(request.workspace)
        if request.upper is not None and request.work is not None:
            options = [*layers, "--overlay", str(request.upper), str(request.work), workspace]
        else:
            options = [*layers, "--tmp-overlay", workspace]
        inside = [os.fsdecode(path) for path in list_mounts_below(os.fsencode(request.workspace))]
        options += [word for path in inside for word in ("--ro-bind", path, path)]

        options = [*_overlay_repository(request), *options]

        def finish() -> tuple[str, ...]:
            try:
                return (*remove_masked_changes(request), *drop_repository_changes(request))
            finally:
                remove_copy(masks)

        return PreparedLaunch(message=self._build_message(request, options), finish=finish, undo=finish)

    def _prepare_own_overlay(self, request: BoxRequest, scratch: Path) -> PreparedLaunch:
        """Prepare T2b."""
        root = encode_layers(request, host_view.find_toolchains(request.env))

        def undo() -> tuple[str, ...]:
            if request.upper is not None and request.work is not None:
                remove_copy(request.work / "work")  # the kernel's overlay accepts only a work directory that it created
            return finish()

        def finish() -> tuple[str, ...]:
            return (*remove_masked_changes(request), *drop_repository_changes(request))

        visible_paths = [str(path) for path in (request.repository, request.workspace) if path]
        message = self._build_message(
            request, [word for path in visible_paths for word in ("--bind", path, path)], root
        )
        return PreparedLaunch(message=message, finish=finish, undo=undo)

    def _prepare_copy(self, request: BoxRequest, scratch: Path) -> PreparedLaunch:
        """Prepare T2c."""
        copy = copy_project(request, choose_copy_directory(request, scratch))
        workspace = str(request.workspace)
        options = ["--bind", str(copy.root), workspace]
        for path in copy.held:
            original = os.path.join(workspace, os.fsdecode(path))
            options += ["--ro-bind", original, original]
        below = tuple(f"{os.fsdecode(path)}/" for path in copy.held)
        inside = tuple(path for path in request.masked if path.startswith(below))
        return PreparedLaunch(
            message=self._build_message(structs.replace(request, withheld=(*request.withheld, *inside)), options),
            finish=lambda: (*capture_changes(copy, request.upper, is_mounted=True), *describe_limits(request)),
            undo=lambda: capture_changes(copy, None, is_mounted=True),
        )

    def _build_message(
        self, request: BoxRequest, workspace: list[str], root: OverlayRoot | None = None
    ) -> SupervisorLaunch:
        arguments = [
            str(self._program),
            *self._list_isolation_options(has_own_network=request.network is None),
            *_bind_host(request, self._state, is_root_ours=root is not None),
            *self._cover_private_files(request),
            *workspace,
        ]
        arguments += _cover_paths([*request.hidden, *(request.workspace / path for path in request.withheld)], request)
        arguments += [
            word for directory in ("/dev", "/sys", "/home") for word in self._make_read_only(directory, request)
        ]
        arguments += ["--chdir", os.path.normpath(request.workspace / request.cwd), "--json-status-fd", str(STATUS)]
        arguments += ["--seccomp", str(FILTER), "--", find_shell(), "-c"]
        arguments += [_build_start_script(request.limits.processes), find_shell(), request.command]
        home = str(host_view.find_home(request.env))
        return {
            **encode_command(request, arguments, {**request.env, "HOME": home}),
            "cwd": b"/",
            "bubblewrap": True,
            "git_settings": request.git_settings.encode("utf-8", "surrogateescape"),
            "root": root,
            "scratch": request.limits.scratch // _SCRATCH_SHARES,
            "rules": None,
            "families": list(NETWORK if self._binds_host_directories else FAMILIES),
            "user": None,
            "leaves_processes": False,
            "has_overlay": self._tier is not Tier.BWRAP_COPY and not self._program.stat().st_mode & stat.S_ISUID,
        }

    def _cover_private_files(self, request: BoxRequest) -> Iterator[str]:
        """Yield covers for files that only root can read, where the host's directories themselves are bound.

        A readable directory of the user in one of them is bound again.
        """
        if not self._binds_host_directories or os.getuid() != 0:
            return
        yield from _cover_paths(host_view.list_private_paths(), request)
        for path in request.readable:
            yield from ("--ro-bind-try", str(path), str(path))

    @staticmethod
    def _make_read_only(directory: str, request: BoxRequest) -> Iterator[str]:
        if Path(directory).is_dir() and os.path.realpath(host_view.find_home(request.env)) != directory:
            yield from ("--remount-ro", directory)

    def _get_network_command(self) -> Sequence[str]:
        """See there. Where only bubblewrap may make namespaces (T2a, T2c), the process finds them ready."""
        if os.geteuid() == 0 or self._tier is Tier.BWRAP_MOUNTED:
            return build_python_command("network_process", "{control}", 0)
        return [
            *(str(self._program), "--unshare-user", "--unshare-net", "--die-with-parent", "--dev-bind", "/", "/", "--"),
            *build_python_command("network_process", "{control}", 1),
        ]

    def _list_isolation_options(self, *, has_own_network: bool) -> list[str]:
        """Return the options for namespaces and capabilities that this bubblewrap supports; the syscall filter backs
        them up."""
        options = [
            *(f"--unshare-{kind}" for kind in _UNSHARED_NAMESPACES if has_own_network or kind != "net"),
            "--disable-userns",
            "--die-with-parent",
            "--new-session",
        ]
        return [
            *(option for option in options if option in self._options),
            *("--uid", str(os.getuid()), "--gid", str(os.getgid()), "--cap-drop", "ALL"),
        ]


def choose_copy_directory(request: BoxRequest, scratch: Path) -> Path:
    """Return the directory of the copy, on the layer's file system, so that changed files can be moved into the
    layer."""
    if request.upper is not None and request.work is not None:
        return request.work / "copy"
    return scratch


def capture_changes(copy: ProjectCopy, upper: Path | None, *, is_mounted: bool) -> tuple[str, ...]:
    """Write the changes into the layer, if there is one, and remove the copy. Returns notes for the user."""
    notes: tuple[str, ...] = ()
    try:
        if upper is not None:
            move_changes(copy, upper, is_mounted=is_mounted)
            notes = describe_deleted_secrets(upper, copy.withheld)
    finally:
        remove_copy(copy.root)
    path_list = ", ".join(sorted(os.fsdecode(path) for path in copy.held))
    return (*notes, *((f"Read-only in this tier, because too large to copy: {path_list}",) if path_list else ()))


def _build_start_script(processes: int) -> str:
    """Return the script of the innermost shell: it reports the start, closes our descriptors and sets its limit."""
    limit = f"ulimit -u {processes} 2>/dev/null || ulimit -p {processes} 2>/dev/null; "
    return f'printf r >&{READY}; exec {STATUS}>&- {READY}>&- {FILTER}<&- {SETTINGS}<&-; {limit}exec "$0" -c "$1"'


def _bind_host(request: BoxRequest, state: Path, *, is_root_ours: bool) -> Iterator[str]:
    """Yield the options that mount the host, except the workspace; later ones are mounted over earlier ones.

    Fresh writable directories share the scratch space evenly, as bubblewrap can't limit them together. `is_root_ours`:
    the root is our overlay (T2b), not the host's.
    """
    size = ("--size", str(request.limits.scratch // _SCRATCH_SHARES))
    home = os.path.realpath(host_view.find_home(request.env))
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", *size, "--tmpfs", "/dev/shm")
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    yield from _cover_paths([Path(os.fsdecode(secret)) for secret in KERNEL_SECRETS], request)
    for directory in _FRESH_DIRECTORIES:
        if not Path(directory).is_dir() or Path(directory).is_symlink():
            continue
        if directory == "/tmp" and request.temporary is not None:
            yield from ("--bind", str(request.temporary), directory)
        else:
            yield from (*size, "--tmpfs", directory)
    secret_paths = (*host_view.list_masked(), state)
    opened_paths = (request.workspace, host_view.find_home(request.env), *request.readable)
    foreign_mounts = host_view.list_foreign_mounts((*secret_paths, request.workspace), opened_paths)
    if is_root_ours and os.geteuid() == 0:  # it has only what everybody may see, and there is nothing else to cover
        foreign_mounts = [path for path in foreign_mounts if host_view.is_open_to_all(path.parent)]
    yield from _cover_paths([*secret_paths, *foreign_mounts], request)
    yield from (*size, "--tmpfs", home)
    link = host_view.find_home(request.env)
    if str(link) != home and any(link.is_relative_to(fresh) for fresh in _FRESH_DIRECTORIES):
        yield from ("--symlink", home, str(link))
    if request.git_settings:
        yield from ("--file", str(SETTINGS), os.path.join(home, ".gitconfig"))
    toolchains = host_view.find_toolchains(request.env)
    for path in (*toolchains, *request.readable):
        yield from ("--ro-bind-try", str(path), str(path))
    yield from _cover_paths(find_credentials(toolchains), request, toolchains)
    if request.cache is not None:
        yield from ("--bind", str(request.cache), os.path.join(home, ".cache"))
    for source, target in request.writable:
        yield from ("--bind", str(source), str(target))


def _overlay_repository(request: BoxRequest) -> list[str]:
    """Return options for a layer over git's directory outside of the workspace."""
    if request.repository is None:
        return []
    repository = str(request.repository)
    if request.upper is None:
        return ["--overlay-src", repository, "--tmp-overlay", repository]
    layer = get_repository_layer_path(request.upper)
    for path in (layer, layer / "upper", layer / "work"):
        path.mkdir(mode=0o700)
    return ["--overlay-src", repository, "--overlay", str(layer / "upper"), str(layer / "work"), repository]


def _cover_paths(paths: Iterable[Path], request: BoxRequest, toolchains: Iterable[Path] = ()) -> Iterator[str]:
    """Yield options that hide these paths. A missing path, or one in a fresh directory, needs none.

    `toolchains`: paths that are bound again in fresh directories, besides those that the user added.
    """
    visible_directories = (
        request.workspace,
        *request.readable,
        *(target for _, target in request.writable),
        *(Path(os.path.realpath(toolchain)) for toolchain in toolchains),
    )
    for path in paths:
        real = Path(os.path.realpath(path))
        is_visible = any(real.is_relative_to(directory) for directory in visible_directories)
        if not os.path.lexists(real) or (
            not is_visible and any(real.is_relative_to(fresh) for fresh in _FRESH_DIRECTORIES)
        ):
            continue
        if real.is_dir():
            yield from ("--perms", "0555", "--tmpfs", str(real))
        else:
            yield from ("--ro-bind", os.fsdecode(_EMPTY_FILE), str(real))
