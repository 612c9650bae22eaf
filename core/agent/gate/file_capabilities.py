"""The capabilities of READ and PROPOSE: files as the agent sees them, linters over them, and edits in the shadow.

A reading capability holds functions that read, not the shadow they come from. A linter runs without a question, so only
where the box is strong, the project is trusted, and no rule of the user forbids it; its effects are dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.answer.call_documents import build_edit_detail, build_rename_detail
from core.agent.base.call_lease import CallLease
from core.agent.base.name_lookup import NO_LOOKUP, NameLookup, SearchProject, search_nothing
from core.agent.base.permissions import CallPermissions, PathGuard
from core.agent.context.rule_injection import fetch_rules
from core.agent.context.skills import open_skill
from core.agent.debug.debug_policy import check_no_marks
from core.errors import PathRefused, ToolFailed
from core.git.credentials import register_credentials_of, register_read_repository
from core.modes import Access
from core.protocol.events import DiagnosticsReported
from core.protocol.language import Place
from core.protocol.queries import SearchAnswer, SearchQuery
from core.shadow.review.proposals import ShadowEdit
from core.shell.long_output import read_spilled
from core.tools.base import EditRequest, FetchedRules, FileEditDetail, LintRun, SkillRequest, SkillText
from core.tools.linters import LINTERS, SIDES, LintJob, build_script, format_command
from core.workspace import DirectoryEntry, PathStat, Workspace
from core.workspace.added_directories import AddedDirectories

if TYPE_CHECKING:
    from core.lsp.questions import LocationKind, NamePosition

TIME_LIMIT: Final = 45.0
MOST_UNDONE: Final = 20  # edits of a file that can be undone
MAX_OUTPUT: Final = 2_000_000  # characters of a linter's output
EMPTY_RUN: Final = LintRun(exit_code=0, output="")
ApplyEdit = Callable[[EditRequest], Awaitable[str]]


async def run_linter(permissions: CallPermissions, job: LintJob, *, pending: bool) -> LintRun:
    """Run a linter over pending files or over those on disk. Raises `ToolFailed` if it must not or can't run."""
    terminal, shadow = permissions.terminal, permissions.terminal.host.shadow
    box = await terminal.host.box.find()
    if box is None or not box.tier.can_run_unasked:
        raise ToolFailed(
            "was not run: commands can't be sandboxed on this machine, so none runs without asking.",
            hint="Run the linter with run_terminal_cmd instead, if the mode allows it.",
        )
    if (reason := permissions.explain_unasked(format_command(job), job.directory)) is not None:
        raise ToolFailed(f"was not run: {reason}")
    if not pending and (disk_job := _narrow_to_disk(terminal.host.workspace, job)) is not job:
        if disk_job is None:
            return EMPTY_RUN
        job = disk_job
    box_result, output, _ = await terminal.run_passing(
        box,
        build_script(job, SIDES[pending]),
        lowers=shadow.prepare_lowers() if pending else shadow.layers.list_uppers(),
        cwd=job.directory,
        seconds=TIME_LIMIT,
        max_output=MAX_OUTPUT,
    )
    return LintRun(exit_code=box_result.exit_code, output=output, ended=box_result.end_reason)


def _narrow_to_disk(workspace: Workspace, job: LintJob) -> LintJob | None:
    """Return the job without the files that are not on disk, None = nothing is left to run."""
    disk_files = tuple(path for path in job.files if workspace.stat(path) is not None)
    if workspace.stat(job.directory) is None or (LINTERS[job.linter].named and not disk_files):
        return None
    return job if disk_files == job.files else replace(job, files=disk_files)


class FileReader(Struct, eq=False, kw_only=True):
    """READ: files as the agent sees them, by detached functions. `digests`: by path, those of content that was read."""

    root: str
    digests: dict[str, str]
    relative: Callable[[str], str]
    list_entries: Callable[[str], tuple[DirectoryEntry, ...]]
    pending_paths: Callable[[], Mapping[str, str]]
    list_command_files: Callable[[str], tuple[str, ...]]
    read_spilled: Callable[[str], bytes | None]
    check_path: Callable[[Access, str], None]
    look_up: Callable[[str], PathStat | None]
    read: Callable[[str, int], bytes]
    run_linter: Callable[[LintJob, bool], Awaitable[LintRun]]
    find_rules: Callable[[tuple[str, ...]], Awaitable[FetchedRules]]
    find_skill: Callable[[SkillRequest], Awaitable[SkillText]]
    names: NameLookup = NO_LOOKUP
    search_project: SearchProject = search_nothing

    def stat(self, path: str) -> PathStat | None:
        relative_path = self.relative(path)
        self.check_path(Access.READ, relative_path)
        register_read_repository(Path(self.root), relative_path)  # The path is read or searched next.
        return self.look_up(relative_path)

    def read_bytes(self, path: str, limit: int) -> bytes:
        relative_path = self.relative(path)
        self.check_path(Access.READ, relative_path)
        data = self.read(relative_path, limit)
        if ".git" in PurePosixPath(relative_path).parts:
            register_credentials_of(data.decode("utf-8", "replace"))
        return data

    def list_dir(self, path: str) -> tuple[DirectoryEntry, ...]:
        return self.list_entries(self.relative(path))

    def mark_read(self, path: str) -> None:
        relative_path = self.relative(path)
        self.digests[relative_path] = self.compute_digest(path)
        if not relative_path.startswith("/"):
            self.names.note_read(relative_path)

    async def diagnose(self, paths: tuple[str, ...]) -> tuple[DiagnosticsReported, ...]:
        return await self.names.diagnose(tuple(map(self.relative, paths)))

    async def find_places(self, kind: LocationKind, name_position: NamePosition) -> tuple[Place, ...]:
        return tuple(self._hide_restricted(location) for location in await self.names.locate(kind, name_position))

    async def describe_name(self, name_position: NamePosition) -> str:
        return await self.names.describe(name_position)

    def _hide_restricted(self, location: Place) -> Place:
        """Return the location without its text if the agent may not read the file."""
        try:
            if not location.path.startswith("/"):
                self.check_path(Access.READ, location.path)
        except PathRefused:
            return replace(location, text="")
        return location

    async def search(self, query: SearchQuery) -> SearchAnswer:
        return await self.search_project(query, self)

    async def fetch_rules(self, names: tuple[str, ...]) -> FetchedRules:
        return await self.find_rules(names)

    async def open_skill(self, request: SkillRequest) -> SkillText:
        return await self.find_skill(request)

    async def lint(self, job: LintJob, *, pending: bool) -> LintRun:
        return await self.run_linter(job, pending)

    def compute_digest(self, path: str) -> str:
        return hashlib.sha256(self.read_bytes(path, 1 << 26)).hexdigest()


class EditVersions(Struct, eq=False):
    """The contents of files before and after the model's edits, the latest last. `keep` stores bytes and returns their
    digest, and `load` returns them again."""

    keep: Callable[[bytes], str] = lambda data: hashlib.sha256(data).hexdigest()
    load: Callable[[str], bytes] = lambda _: b""
    edits: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def record(self, path: str, before: bytes | None, after: bytes | None) -> None:
        """Note an edit of a file. None: it did not exist, or does not any more."""
        versions = ("" if before is None else self.keep(before), "" if after is None else self.keep(after))
        self.edits[path] = [*self.edits.get(path, []), versions][-MOST_UNDONE:]

    def pop(self, path: str, current: bytes | None) -> bytes | None:
        """Return the content before the last edit, which is forgotten. Raises `ToolFailed` if there is none, or if
        `current` is not what it left."""
        if not self.edits.get(path):
            raise ToolFailed(f"There is no edit of {path} to undo.", hint="Edit the text itself. Nothing was changed.")
        before, after = self.edits[path][-1]
        if after != ("" if current is None else self.keep(current)):
            raise ToolFailed(
                f"{path} has changed since your last edit, so that can't be undone.",
                hint="Read it, and edit the text itself. Nothing was changed.",
            )
        self.drop_last(path)
        return self.load(before) if before else None

    def drop_last(self, path: str) -> None:
        """Forget the last edit of a file."""
        del self.edits[path][-1:]


class FileEditor(FileReader, eq=False, kw_only=True):
    """PROPOSE: reading, and writes to the shadow."""

    edit: Callable[..., ShadowEdit]  # arguments: path, bytes (None = delete), mode (optional, default: the file's)
    lease: CallLease
    apply_edit: ApplyEdit
    versions: EditVersions = field(default_factory=EditVersions)

    def write(self, path: str, data: bytes) -> FileEditDetail:
        self.lease.check()
        relative_path = self.relative(path)
        self.check_path(Access.PROPOSE, relative_path)
        check_no_marks(data)
        shadow_edit = self.edit(relative_path, data)
        self.digests[relative_path] = hashlib.sha256(data).hexdigest()
        self.versions.record(relative_path, shadow_edit.before, data)
        return build_edit_detail(relative_path, shadow_edit)

    def delete(self, path: str) -> FileEditDetail:
        self.lease.check()
        relative_path = self.relative(path)
        self.check_path(Access.PROPOSE, relative_path)
        shadow_edit = self.edit(relative_path, None)
        self.digests.pop(relative_path, None)
        self.versions.record(relative_path, shadow_edit.before, None)
        return build_edit_detail(relative_path, shadow_edit)

    def undo(self, path: str) -> FileEditDetail:
        relative_path = self.relative(path)
        self.check_path(Access.PROPOSE, relative_path)
        current = self.read(relative_path, 1 << 26) if self.look_up(relative_path) else None
        before = self.versions.pop(relative_path, current)
        detail = self.delete(path) if before is None else self.write(path, before)
        self.versions.drop_last(relative_path)
        return detail

    def move(self, path: str, target: str, data: bytes) -> FileEditDetail:
        self.lease.check()
        old, new = self.relative(path), self.relative(target)
        for relative_path in (old, new):
            self.check_path(Access.PROPOSE, relative_path)
        check_no_marks(data)
        before, status = self.read(old, 1 << 26), self.look_up(old)
        self.edit(new, data, status.mode if status is not None else None)
        self.edit(old, None)
        self.digests.pop(old, None)
        self.digests[new] = hashlib.sha256(data).hexdigest()
        return build_rename_detail(old, new, before, data)

    def has_read_current(self, path: str) -> bool:
        return self.digests.get(self.relative(path)) == self.compute_digest(path)

    async def plan_rename(self, name_position: NamePosition, new_name: str) -> dict[str, str]:
        self.lease.check()
        return await self.names.plan_rename(name_position, new_name)

    async def apply_with_model(self, request: EditRequest) -> str:
        self.lease.check()
        return await self.apply_edit(request)


def list_reading(
    permissions: CallPermissions, digests: dict[str, str], approved_paths: Sequence[str], tool: str = ""
) -> dict[str, Any]:
    """List the fields of a `FileReader`: functions detached from their objects."""

    def detach(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: function(*arguments)  # noqa: PLW0108 (a bound method leads to its object)

    directory, shadow = permissions.terminal.host.directory, permissions.terminal.host.shadow
    guard = permissions.build_path_guard(approved_paths, tool)
    reading: dict[str, Any] = {
        "root": str(shadow.workspace.root),
        "digests": digests,
        "relative": detach(shadow.workspace.to_relative),
        "list_entries": detach(shadow.list_open_dir),
        "pending_paths": lambda: {change.path: change.operation for change in shadow.list_changes()},
        "list_command_files": detach(shadow.list_command_files),
        "read_spilled": lambda path: read_spilled(directory, path),
        "check_path": detach(guard.check),
        "look_up": detach(shadow.stat),
        "read": detach(shadow.read_existing),
        "find_rules": lambda names: fetch_rules(permissions, names, tuple(digests)),
        "find_skill": lambda request: open_skill(permissions, request),
        "run_linter": lambda job, pending: run_linter(permissions, job, pending=pending),
    }
    added_directories = permissions.added_directories
    return reading if added_directories is None else reading | _include_added(reading, added_directories, guard)


def _include_added(reading: dict[str, Any], added_directories: AddedDirectories, guard: PathGuard) -> dict[str, Any]:
    """Return replacements of functions that also read further directories, by absolute paths."""

    def relative(path: str) -> str:
        try:
            relative_path: str = reading["relative"](path)
        except PathRefused:
            if absolute_path := added_directories.locate(path):
                return absolute_path
            raise
        return relative_path

    def check(access: Access, path: str) -> None:
        if not path.startswith("/"):
            reading["check_path"](access, path)
        elif access is not Access.READ:
            raise PathRefused(f"{path!r} is outside the project: it is read-only.", code="read_only")
        elif guard.allowed or guard.decide_added(path, is_secret=added_directories.is_secret(path)).choice != "allow":
            raise PathRefused(f"{path!r} is off limits to the agent.", code="path_denied")

    def choose(name: str, other: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, *arguments: (other if path.startswith("/") else reading[name])(path, *arguments)

    return {
        "relative": relative,
        "check_path": check,
        "look_up": choose("look_up", added_directories.stat),
        "read": choose("read", added_directories.read),
        "list_entries": choose("list_entries", added_directories.list_dir),
    }


def build_reader(
    permissions: CallPermissions, digests: dict[str, str], approved_paths: Sequence[str] = (), tool: str = ""
) -> FileReader:
    """Build a READ capability. `digests`: see `FileReader`; `approved_paths`: files that the user approved; `tool`: the
    name of the tool that reads."""
    return FileReader(**list_reading(permissions, digests, approved_paths, tool))
