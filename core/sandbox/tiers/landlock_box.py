"""Tiers for machines without any way to create namespaces: Landlock (T3), and the container that the machine itself is.

Under T3 a command runs on a copy of the project, behind Landlock and a syscall filter. It may read the system's
programs and change its copy and its scratch directory; it has no network and no unix sockets, and a supervisor ends its
descendants. Landlock does not cover the metadata of files of the same user, the list of processes and, below ABI 6,
signals to them (docs/safety.md). Root's commands run as a user who owns nothing.

`container` and `in-place` are the user's choice, and nothing is around a command. In `container` it runs on a copy, so
that its effects on the project become changes for the review; in `in-place`, for machines that are thrown away, in the
project itself. In both it has the machine's network, home and environment (without the keys of model APIs), and what it
leaves running goes on: in `container` until the box closes, in `in-place` for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import structs

from core.filesystem.private_files import make_private_directory
from core.ids import new_id
from core.sandbox import host_view
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.host_view import find_credentials
from core.sandbox.inside.landlock import EVERYTHING, READ, USE
from core.sandbox.other_path import map_paths, rewrite_command
from core.sandbox.tiers.boxed_process import (
    BoxedProcess,
    Listeners,
    PreparedLaunch,
    SupervisedBox,
    SupervisedProcess,
    encode_command,
    make_scratch_path,
)
from core.sandbox.tiers.bwrap import capture_changes, choose_copy_directory
from core.sandbox.tiers.dropped_changes import describe_limits
from core.sandbox.tiers.project_copy import copy_project, remove_copy
from core.sandbox.tiers.project_survey import CopyLimits
from core.sandbox.tiers.session_copy import SessionCopies
from core.sandbox.unboxed_run import find_shell, has_marked_processes, kill_marked_processes

if TYPE_CHECKING:
    from core.sandbox.inside.messages import SupervisorLaunch

MINIMUM_ABI = 3
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/snap", "/proc")
_ENVIRONMENTS = (".venv", "venv", "env")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_VARIABLE = ("/var/lib/dpkg", "/var/lib/rpm", "/var/cache/fontconfig", "/var/lib/alternatives")
_MOST_NAMED = 3
_ANY_OWNER = "\n[safe]\n\tdirectory = *\n"
BOX_VARIABLE: Final = "AGENT_TUI_BOX"
# A larger part would be a link to the original, and nothing keeps a command from writing there.
_CONTAINER_LIMITS = CopyLimits(seconds=60, size=8 << 30, ignored_size=8 << 30, ignored_files=1_000_000)
_FIRST_FREE_ID = 60_913  # above the ids of users and below those of containers


class LandlockBox(SupervisedBox):
    """The box of T3. Its copies are made in `state`, too, and removed afterwards."""

    def __init__(self, state: Path, copy_limits: CopyLimits | None = None) -> None:
        super().__init__(Tier.LANDLOCK, state)
        self._copy_limits = copy_limits

    def _prepare_launch(self, request: BoxRequest) -> PreparedLaunch:
        user = choose_user(request.workspace)
        state = self._state if user is None else _find_open_directory(self._state)
        scratch = make_scratch_path(state)
        copy_directory = make_scratch_path(state)
        if state == self._state:
            copy_directory = choose_copy_directory(request, copy_directory)
        copy = copy_project(
            withhold_hidden_paths(request), copy_directory, limits=self._copy_limits, link_held=True, owner=user
        )
        home = _make_home(scratch, request, user)
        held_paths = [request.workspace / os.fsdecode(path) for path in copy.held]
        rules = [*_list_rules(request, [*held_paths, *_find_environments(request)])]
        rules += [(str(path), EVERYTHING) for path in (copy.root, scratch)]
        before = MetadataSnapshot(request.workspace, copy.files)

        def finish(upper: Path | None) -> tuple[str, ...]:
            try:
                notes = (*capture_changes(copy, upper, is_mounted=False), *before.describe_changes())
                if user and upper is not None:
                    _return_ownership(upper, request.workspace)
                return (*notes, *describe_limits(request, is_found=_finds_repository(request)))
            finally:
                remove_copy(scratch)

        mapping = map_paths(request.env, request.workspace, copy.root, request.command)
        message = _build_message(request, copy.root, {**mapping.env, "HOME": str(home), "TMPDIR": str(scratch / "tmp")})
        return PreparedLaunch(
            message={**message, "rules": rules, "user": user},
            finish=lambda: finish(request.upper),
            undo=lambda: finish(None),
            unproven=mapping.problem,
        )


def _make_home(scratch: Path, request: BoxRequest, user: tuple[int, int] | None) -> Path:
    """Make the home and the temporary directory of a command; return the home."""
    home = scratch / "home"
    make_private_directory(scratch)
    for directory in (home, scratch / "tmp"):
        directory.mkdir(mode=0o700)
    if request.cache is not None and user is None:
        (home / ".cache").symlink_to(request.cache)
    # Git reads no repository of another user; that outside of the copy is root's.
    git_settings = request.git_settings + (_ANY_OWNER if user is not None else "")
    if git_settings:
        (home / ".gitconfig").write_text(git_settings, encoding="utf-8", errors="surrogateescape")
    if user is not None:
        for path in (scratch, *scratch.rglob("*")):
            os.chown(path, *user)
    return home


def _build_message(request: BoxRequest, root: Path, env: Mapping[str, str]) -> SupervisorLaunch:
    """Build the message for a command in `root` with more variables `env`, without any restriction."""
    return {
        **encode_command(request, (find_shell(), "-c", request.command), {**request.env, **env}),
        "cwd": os.fsencode(os.path.normpath(root / request.cwd)),
        "bubblewrap": False,
        "git_settings": b"",
        "root": None,
        "scratch": 0,
        "rules": None,
        "families": [],
        "user": None,
        "leaves_processes": False,
        "has_overlay": False,
    }


def choose_user(workspace: Path) -> tuple[int, int] | None:
    """Return the user and group that root becomes: the owner of another user's workspace, else an id that nobody has;
    None for an ordinary user."""
    if os.geteuid() != 0:
        return None
    stats = workspace.stat()
    if stats.st_uid != 0:
        return stats.st_uid, stats.st_gid
    return _find_free_id(), _find_free_id()


@cache
def _find_free_id() -> int:
    taken_ids = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    return next(number for number in range(_FIRST_FREE_ID, _FIRST_FREE_ID + 1000) if number not in taken_ids)


def _find_open_directory(state: Path) -> Path:
    """Return the state directory if everybody may pass through it, else a directory for temporary files: the copies of
    another user's commands are there."""
    if host_view.is_open_to_all(state):
        return state
    return next((path for path in map(Path, ("/var/tmp", "/tmp", "/dev/shm")) if path.is_dir()), state)


def _return_ownership(upper: Path, workspace: Path) -> None:
    """Give what another user has made to the owner of the workspace. What no path can name stays as it is."""
    owner, waiting = workspace.stat(), [os.fsencode(upper)]
    while waiting:
        path = waiting.pop()
        with contextlib.suppress(OSError):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
            if stat.S_ISDIR(os.lstat(path).st_mode):
                waiting += [os.path.join(path, name) for name in os.listdir(path)]


def _finds_repository(request: BoxRequest) -> bool:
    """True if git finds the repository from the copy, since the `.git` file holds an absolute path."""
    try:
        return (request.workspace / ".git").read_bytes()[:9] == b"gitdir: /"
    except OSError:
        return False


def withhold_hidden_paths(request: BoxRequest) -> BoxRequest:
    """Return the request with hidden paths of the workspace withheld: a copy omits them, as it can't cover them."""
    inside = [
        str(path.relative_to(request.workspace)) for path in request.hidden if path.is_relative_to(request.workspace)
    ]
    return structs.replace(request, withheld=(*request.withheld, *inside))


def _list_rules(request: BoxRequest, paths: list[Path]) -> Iterator[tuple[str, int]]:
    """Yield rules for readable paths, listed individually: a rule can't revoke rights of a wider one."""
    secret_paths = (*host_view.list_masked(), *request.hidden, request.workspace)
    foreign_mounts = host_view.list_foreign_mounts(secret_paths, (request.workspace, *request.readable))
    hidden_paths = (*_list_hidden_directories(request), *foreign_mounts)
    yield from (
        (str(visible_path), READ)
        for path in (*_SYSTEM, *_VARIABLE)
        for visible_path in _exclude_hidden(Path(path).resolve(), hidden_paths)
    )
    yield from ((path, USE) for path in _DEVICES)
    masked_paths = set(host_view.list_masked())
    for directory in ("/etc", "/etc/ssh", "/etc/ssl", "/etc/security"):
        yield from ((str(path), READ) for path in _list_readable(Path(directory), masked_paths))
    toolchains = host_view.find_toolchains(request.env)
    kept_out = (*_list_hidden(request), *find_credentials(toolchains))
    for path in (*toolchains, *paths):
        yield from ((str(visible_path), READ) for visible_path in _exclude_hidden(path, kept_out))
    for path in request.readable:  # one of them may contain the workspace, of which the command has a copy
        yield from ((str(visible_path), READ) for visible_path in _exclude_hidden(path, (*kept_out, request.workspace)))
    if request.cache is not None:
        yield str(request.cache), EVERYTHING
    yield from ((str(path), EVERYTHING) for path, _ in request.writable)


def _find_environments(request: BoxRequest) -> Iterator[Path]:
    """Yield the project's virtual environments, whose scripts refer to their original paths."""
    for path in request.workspace.glob("*/pyvenv.cfg"):
        if path.parent.name in _ENVIRONMENTS and not path.parent.is_symlink():
            yield from _exclude_hidden(path.parent, _list_hidden(request))


def _list_hidden(request: BoxRequest) -> tuple[Path, ...]:
    inside = (request.workspace / path for path in (*request.withheld, *request.masked))
    return (*_list_hidden_directories(request), *inside)


def _list_hidden_directories(request: BoxRequest) -> tuple[Path, ...]:
    """Return the hidden paths, as they are named and where they are."""
    return tuple({*request.hidden, *map(_resolve, request.hidden)})


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))  # `Path.resolve` raises an error for links in a circle


def _exclude_hidden(path: Path, hidden_paths: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the paths that make `path` readable without what is hidden. A rule for a symbolic link holds for all of its
    target, which must neither be hidden nor contain what is."""
    target = _resolve(path)
    if path in hidden_paths or any(target.is_relative_to(hidden_path) for hidden_path in hidden_paths):
        return
    if not any(hidden_path.is_relative_to(path) or hidden_path.is_relative_to(target) for hidden_path in hidden_paths):
        yield path
    elif not path.is_symlink():
        for name in host_view.list_names(path):
            yield from _exclude_hidden(path / name, hidden_paths)


def _list_readable(directory: Path, masked_paths: set[Path]) -> Iterator[Path]:
    """Yield the entries of a directory that are not masked, and links to nothing masked."""
    for name in host_view.list_names(directory):
        path = directory / name
        ends = {path, _resolve(path)}
        if not any(masked_path.is_relative_to(end) for end in ends for masked_path in masked_paths):
            yield path


class MetadataSnapshot:
    """Modes and times of the project's own files, from before a command that works on a copy of them.

    Landlock covers content and names only, so other changes are reported.
    """

    def __init__(self, workspace: Path, paths: Iterable[bytes]) -> None:
        self._root = os.fsencode(workspace)
        self._before = {path: status for path in paths if (status := self._read_status(path)) is not None}

    def _read_status(self, path: bytes) -> os.stat_result | None:
        try:
            return os.lstat(os.path.join(self._root, path))
        except OSError:
            return None

    def describe_changes(self) -> tuple[str, ...]:
        """Return notes on changed modes and times. A rewritten file (by an editor, say) does not count."""
        differing = (path for path, before in self._before.items() if self._is_changed(path, before))
        changed_paths = sorted(os.fsdecode(path) or "." for path in differing)
        if not changed_paths:
            return ()
        suffix = f" and {len(changed_paths) - _MOST_NAMED} more" if len(changed_paths) > _MOST_NAMED else ""
        return (
            "Modes or times of your own files changed while it ran, which this tier can't prevent: "
            f"{', '.join(changed_paths[:_MOST_NAMED])}{suffix}",
        )

    def _is_changed(self, path: bytes, before: os.stat_result) -> bool:
        now = self._read_status(path)
        if now is None or (now.st_ino, now.st_size) != (before.st_ino, before.st_size):
            return False
        if stat.S_ISDIR(now.st_mode):  # its times change with its entries
            return now.st_mode != before.st_mode
        return (now.st_mode, now.st_mtime_ns) != (before.st_mode, before.st_mtime_ns)


class ContainerBox(SupervisedBox):
    """The box of `container` and `in-place`."""

    def __init__(self, tier: Tier, state: Path, copy_limits: CopyLimits | None = None) -> None:
        super().__init__(tier, state)
        self._copies = SessionCopies(state, limits=copy_limits or _CONTAINER_LIMITS)
        self._mark = new_id("box")

    def _prepare_launch(self, request: BoxRequest) -> PreparedLaunch:
        if self._tier is Tier.IN_PLACE:
            message = _build_message(request, request.workspace, {})
            return PreparedLaunch(message={**message, "leaves_processes": True}, finish=tuple, undo=tuple)
        lease = self._copies.acquire(withhold_hidden_paths(request))

        def finish(upper: Path | None) -> tuple[str, ...]:
            return lease.collect(upper, has_survivors=has_marked_processes(BOX_VARIABLE, self._mark))

        mapping = map_paths(request.env, request.workspace, lease.root, request.command)
        command = rewrite_command(request.command, request.workspace, lease.root)  # nothing else keeps it from there
        mapped_request = structs.replace(request, command=command)
        message = _build_message(mapped_request, lease.root, {**mapping.env, BOX_VARIABLE: self._mark})
        return PreparedLaunch(
            message={**message, "leaves_processes": True},
            finish=lambda: finish(request.upper),
            undo=lambda: finish(None),
            unproven=mapping.problem,
        )

    def _make_process(self, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners) -> BoxedProcess:
        return _ContainerProcess(launch, request, listeners)

    async def close(self) -> None:
        await super().close()
        if self._tier is Tier.CONTAINER:
            await asyncio.to_thread(kill_marked_processes, BOX_VARIABLE, self._mark)
            await asyncio.to_thread(self._copies.close)


class _ContainerProcess(SupervisedProcess):
    """A command whose output outlives it: processes that it leaves running can still write there."""

    async def _release(self) -> None:
        await super()._release()
        for reader in self._readers:
            reader.hand_over()
