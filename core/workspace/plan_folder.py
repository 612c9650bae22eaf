"""The plan files of a project: `.cursor/plans/*.plan.md`, the one place that is written without a review.

So the border is enforced here and not by the callers: no other path is read as a plan or written as one, no link is
passed on the way, and the file is a regular one without a second name. Where a path came from (a model, a plan, the log
of a session, a command line) makes no difference.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from time import time

from core.errors import PathRefused
from core.filesystem.renaming import is_plan_temporary_name
from core.workspace.file_names import PLAN_SUFFIX, PLANS, from_os_name, is_plan
from core.workspace.tree import Workspace

MAX_PLAN_BYTES = 1_000_000  # bytes
_MAX_WRITE_SECONDS = 60.0  # seconds


class PlanFolder:
    """Plans by workspace-relative path. Every method raises `PathRefused` for what is no plan file."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def read(self, rel: str) -> bytes | None:
        """Return the whole file; None: there is none."""
        path = self._check_path(rel)
        state, data = self._workspace.read_state(path)
        if state.kind == "absent":
            return None
        if state.kind != "file":
            raise PathRefused(
                f"{path!r} is a symbolic link; a plan is a file of its own.", hint="Put the file itself there."
            )
        if state.size > MAX_PLAN_BYTES:
            raise PathRefused(f"{path!r} is too large for a plan ({state.size:,} bytes).", code="too_large")
        return data

    def write(self, rel: str, data: bytes) -> None:
        """Create (with its folders) or replace a plan, whole or not at all."""
        self._workspace.write_atomic(self._check_path(rel), data)

    def list_names(self, rel: str = PLANS) -> list[str]:
        """Return the names of the plans in a folder; none if there is no such folder."""
        if rel != PLANS:
            return []
        try:
            with self._workspace.open_parent(f"{PLANS}/.") as (folder, _):
                found = [from_os_name(os.fsencode(name)) for name in os.listdir(folder)]  # noqa: PTH208  # by descriptor
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise PathRefused(
                f"{PLANS} can't be listed: {error.strerror}.", hint="Plans need a directory there, not a link."
            ) from error
        return [name for name in found if is_plan(f"{PLANS}/{name}")]

    def remove_abandoned(self) -> None:
        """Remove what a process that was killed while it wrote a plan left: all that is older than a write can last."""
        oldest = time() - _MAX_WRITE_SECONDS
        with suppress(PathRefused, OSError), self._workspace.open_parent(f"{PLANS}/.") as (folder, _):
            for name in filter(is_plan_temporary_name, map(os.fsencode, os.listdir(folder))):  # noqa: PTH208  # by descriptor
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_mtime < oldest:
                    os.unlink(name, dir_fd=folder)

    def _check_path(self, rel: str) -> str:
        path = self._workspace.to_relative(rel)
        if not is_plan(path):
            raise PathRefused(
                f"{rel!r} is no plan.", hint=f"Plans are files {PLANS}/*{PLAN_SUFFIX} of the project.", code="no_plan"
            )
        return path
