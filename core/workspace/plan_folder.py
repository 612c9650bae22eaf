"""The plan files of a project, in `.cursor/plans` or a directory of the user's choice, which are written without a
review.

So this module enforces the border, not its callers: only paths of plans are read or written, no link is passed, and the
file is a regular one without a second name, whatever the origin of the path (a model, a plan, the log of a session, a
command line). Plans in the project have relative paths, others absolute ones.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from time import time

from core import user_dirs
from core.errors import PathRefused
from core.filesystem.atomic_write import is_plan_temporary_name
from core.protocol.review import FileState
from core.workspace.file_names import PLAN_SUFFIX, PLANS, fold_name, from_os_name, is_git_internal, is_plan
from core.workspace.path_status import ABSENT
from core.workspace.secret_files import is_secret
from core.workspace.tree import Workspace

MAX_PLAN_BYTES = 1_000_000  # bytes
_MAX_WRITE_SECONDS = 60.0  # seconds
_OWN_NAMES = frozenset({".agent-tui"})
_SECRET_NAMES = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})
_PROBE = "plan.md"  # a file that would be in the directory


class PlanFolder:
    """Plans by path. Every method raises `PathRefused` for paths of other files, and if `directory` (relative to the
    project, absolute, or below `~`) can't hold plans."""

    def __init__(self, workspace: Workspace, directory: str = PLANS) -> None:
        self._workspace = workspace
        self._wanted = directory

    @property
    def place(self) -> str:
        """The folder of new plans: relative to the project, or absolute if it is outside of it."""
        return PLANS if self._wanted == PLANS else find_plan_directory(self._workspace.root, self._wanted)

    def to_path(self, path: str) -> str:
        """Return the canonical path of a plan. Raises `PathRefused` for paths of other files."""
        outside = self.place if self.place.startswith("/") else ""
        if outside and path.startswith(f"{outside}/") and is_plan(path, outside):
            return path
        rel = self._workspace.to_relative(path)
        if is_plan(rel, self.place) or is_plan(rel):
            return rel
        raise PathRefused(
            f"{path!r} is not a plan.",
            hint=f"Plans are files {self.place}/*{PLAN_SUFFIX} of the project.",
            code="no_plan",
        )

    def read(self, rel: str) -> bytes | None:
        """Return the whole file; None: there is none."""
        path = self.to_path(rel)
        state, data = self.read_state(path)
        if state.kind == "absent":
            return None
        if state.kind != "file":
            raise PathRefused(
                f"{path!r} is a symbolic link; a plan has to be a file.", hint="Put the file itself there."
            )
        if state.size > MAX_PLAN_BYTES:
            raise PathRefused(f"{path!r} is too large for a plan ({state.size:,} bytes).", code="too_large")
        return data

    def read_state(self, rel: str) -> tuple[FileState, bytes | None]:
        """Return the state of a plan's path, with its bytes (None if it is absent)."""
        tree, name = self._find_tree(self.to_path(rel))
        return tree.read_state(name) if tree else (ABSENT, None)

    def write(self, rel: str, data: bytes) -> None:
        """Create (with its folders) or replace a plan atomically."""
        path = self.to_path(rel)
        if path.startswith("/"):
            _make_directory(Path(self.place))
        tree, name = self._find_tree(path)
        if tree is None:
            raise PathRefused(f"{self.place} can't be created.", hint="Choose another `plans.directory`.")
        tree.write_atomic(name, data)

    def remove(self, rel: str) -> None:
        """Remove a plan, if it is a file."""
        path = self.to_path(rel)
        tree, name = self._find_tree(path)
        if tree is None or tree.read_state(name)[0].kind != "file":
            return
        try:
            with tree.open_parent(name) as (folder, base):
                os.unlink(base, dir_fd=folder)
        except OSError as error:
            raise PathRefused(f"{path!r} can't be removed: {error.strerror}.") from error

    def list_paths(self) -> list[str]:
        """Return the paths of the plans in the folder; none if there is no such folder."""
        directory = self.place
        tree, folder_name = self._find_tree(f"{directory}/.")
        try:
            if tree is None:
                return []
            with tree.open_parent(folder_name) as (folder, _):
                names = [from_os_name(os.fsencode(name)) for name in os.listdir(folder)]  # noqa: PTH208  # by descriptor
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise PathRefused(
                f"{directory} can't be listed: {error.strerror}.", hint="Plans need a directory there, not a link."
            ) from error
        return [f"{directory}/{name}" for name in names if is_plan(f"{directory}/{name}", directory)]

    def remove_abandoned(self) -> None:
        """Remove temporary files of killed writers: all that are older than a write can take."""
        oldest = time() - _MAX_WRITE_SECONDS
        with suppress(PathRefused, OSError):
            tree, folder_name = self._find_tree(f"{self.place}/.")
            if tree is None:
                return
            with tree.open_parent(folder_name) as (folder, _):
                for name in filter(is_plan_temporary_name, map(os.fsencode, os.listdir(folder))):  # noqa: PTH208  # by descriptor
                    file_stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(file_stat.st_mode) and file_stat.st_mtime < oldest:
                        os.unlink(name, dir_fd=folder)

    def _find_tree(self, path: str) -> tuple[Workspace | None, str]:
        """Return the directory that contains a path, with the relative path in it; None: the directory does not
        exist."""
        if not path.startswith("/"):
            return self._workspace, path
        directory = Path(self.place)
        name = path.removeprefix(f"{directory}/")
        return (Workspace(directory) if directory.is_dir() else None), name


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PathRefused(
            f"{directory} can't be created: {error.strerror}.", hint="Choose another `plans.directory`."
        ) from error


def is_inside_project(directory: str) -> bool:
    """True if a setting refers to a directory below the project; the file system is not accessed."""
    parts = directory.split("/")
    return not directory.startswith(("/", "~")) and ".." not in parts and any(part not in {"", "."} for part in parts)


def find_plan_directory(root: Path, directory: str) -> str:
    """Return the directory of plans in a setting: relative to the project in `root` (a real path), or absolute if it is
    elsewhere. Raises `PathRefused` for one that can't hold plans."""
    try:
        path = Path(os.path.normpath(root / Path(directory).expanduser()))
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise _refuse(directory, "no directory") from error
    if not path.is_relative_to(root) and not real.is_relative_to(root):
        if problem := _find_problem_outside(path, root) or _find_problem_outside(real, root):
            raise _refuse(directory, problem)
        return from_os_name(os.fsencode(real))
    rel = (path if path.is_relative_to(root) else real).relative_to(root)
    name = from_os_name(os.fsencode(rel.as_posix()))
    if name == ".":
        raise _refuse(directory, "the project itself")
    if problem := _find_problem_by_name(name):
        raise _refuse(directory, problem)
    return name


def _find_problem_outside(path: Path, root: Path) -> str | None:
    home = Path.home().resolve()
    if path == Path(path.anchor):
        return "the root of the file system"
    if path == home:
        return "your home directory itself"
    if path in home.parents or path in root.parents:
        return f"a directory above {'your home directory' if path in home.parents else 'the project'}"
    for own_dir, label in ((user_dirs.get_state_dir(), "state"), (user_dirs.get_config_dir(), "settings")):
        if any(
            path.is_relative_to(variant) or variant.is_relative_to(path)
            for variant in (own_dir.absolute(), own_dir.resolve())
        ):
            return f"a directory that agent-tui uses itself {label}"
    return _find_problem_by_name(from_os_name(os.fsencode(path)).lstrip("/"))


def _find_problem_by_name(path: str) -> str | None:
    parts = path.split("/")
    if is_git_internal(path):
        return "a directory of git's own state"
    if any(fold_name(part) in _OWN_NAMES for part in parts):
        return "a directory of agent-tui's settings"
    if any(fold_name(part) in _SECRET_NAMES for part in parts):
        return "a directory of secrets"
    tops = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    if any(is_secret(top, _is_ignored) or is_secret(f"{top}/{_PROBE}", _is_ignored) for top in tops):
        return "a directory of secrets"
    return None


def _is_ignored(_: str, __: bool) -> bool:
    return True


def _refuse(directory: str, subject: str) -> PathRefused:
    return PathRefused(
        f"`plans.directory` is {subject} ({directory}), where plans can't be stored.",
        hint="Choose a directory in the project, or one of your own elsewhere, such as ~/plans.",
        code="plan_place",
    )
