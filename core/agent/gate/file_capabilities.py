"""The capabilities of READ and PROPOSE: files as the agent sees them, and edits that land in the shadow.

What may only read holds functions that read, not the shadow they come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from core.agent.answer.call_documents import build_edit_detail, build_rename_detail
from core.agent.context.told_rules import fetch_rules
from core.agent.debug.debug_policy import check_no_marks
from core.agent.gate.gated_call import CallLease
from core.agent.gate.lint_runner import run_linter
from core.agent.gate.name_lookup import NO_LOOKUP, NameLookup, SearchProject, search_nothing
from core.agent.gate.permissions import CallPermissions, PathGuard
from core.agent.skills.activation import open_skill
from core.errors import PathRefused
from core.git.credentials import register_credentials_of, register_read_repository
from core.modes import Access
from core.protocol.events import DiagnosticsReported
from core.protocol.language import Place
from core.protocol.queries import SearchAnswer, SearchQuery
from core.shadow.review.proposals import ShadowEdit
from core.shell.spill import read_spilled
from core.tools.base import EditRequest, FetchedRules, FileEditDetail, LintRun, SkillRequest, SkillText
from core.tools.linters import LintJob
from core.workspace import DirectoryEntry, PathStat
from core.workspace.added_directories import AddedDirectories

if TYPE_CHECKING:
    from core.lsp.questions import LocationKind, NamePosition

ApplyEdit = Callable[[EditRequest], Awaitable[str]]


class FileReader(Struct, eq=False, kw_only=True):
    """READ: files as the agent sees them, by functions that lead to no object. `digests`: what the model has read."""

    root: str
    digests: dict[str, str]
    relative: Callable[[str], str]
    list_entries: Callable[[str], tuple[DirectoryEntry, ...]]
    pending_paths: Callable[[], Mapping[str, str]]
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
        own = self.relative(path)
        self.check_path(Access.READ, own)
        register_read_repository(Path(self.root), own)  # what is looked for is read or searched next
        return self.look_up(own)

    def read_bytes(self, path: str, limit: int) -> bytes:
        own = self.relative(path)
        self.check_path(Access.READ, own)
        data = self.read(own, limit)
        if ".git" in PurePosixPath(own).parts:
            register_credentials_of(data.decode("utf-8", "replace"))
        return data

    def list_dir(self, path: str) -> tuple[DirectoryEntry, ...]:
        return self.list_entries(self.relative(path))

    def mark_read(self, path: str) -> None:
        own = self.relative(path)
        self.digests[own] = self.compute_digest(path)
        if not own.startswith("/"):
            self.names.note_read(own)

    async def diagnose(self, paths: tuple[str, ...]) -> tuple[DiagnosticsReported, ...]:
        return await self.names.diagnose(tuple(map(self.relative, paths)))

    async def find_places(self, kind: LocationKind, at: NamePosition) -> tuple[Place, ...]:
        return tuple(self._hide_kept(each) for each in await self.names.locate(kind, at))

    async def describe_name(self, at: NamePosition) -> str:
        return await self.names.describe(at)

    def _hide_kept(self, place: Place) -> Place:
        """Return the place without its text where that is kept from the agent."""
        try:
            if not place.path.startswith("/"):
                self.check_path(Access.READ, place.path)
        except PathRefused:
            return replace(place, text="")
        return place

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


class FileEditor(FileReader, eq=False, kw_only=True):
    """PROPOSE: reading, and writes that land in the shadow."""

    edit: Callable[..., ShadowEdit]  # path, bytes (None: nothing), mode (left out: that of the file)
    lease: CallLease
    apply_edit: ApplyEdit

    def write(self, path: str, data: bytes) -> FileEditDetail:
        self.lease.check()
        own = self.relative(path)
        self.check_path(Access.PROPOSE, own)
        check_no_marks(data)
        edited = self.edit(own, data)
        self.digests[own] = hashlib.sha256(data).hexdigest()
        return build_edit_detail(own, edited)

    def delete(self, path: str) -> FileEditDetail:
        self.lease.check()
        own = self.relative(path)
        self.check_path(Access.PROPOSE, own)
        edited = self.edit(own, None)
        self.digests.pop(own, None)
        return build_edit_detail(own, edited)

    def move(self, path: str, target: str, data: bytes) -> FileEditDetail:
        self.lease.check()
        old, new = self.relative(path), self.relative(target)
        for each in (old, new):
            self.check_path(Access.PROPOSE, each)
        check_no_marks(data)
        before, status = self.read(old, 1 << 26), self.look_up(old)
        self.edit(new, data, status.mode if status is not None else None)
        self.edit(old, None)
        self.digests.pop(old, None)
        self.digests[new] = hashlib.sha256(data).hexdigest()
        return build_rename_detail(old, new, before, data)

    def has_read_current(self, path: str) -> bool:
        return self.digests.get(self.relative(path)) == self.compute_digest(path)

    async def plan_rename(self, at: NamePosition, new_name: str) -> dict[str, str]:
        self.lease.check()
        return await self.names.plan_rename(at, new_name)

    async def apply_with_model(self, order: EditRequest) -> str:
        self.lease.check()
        return await self.apply_edit(order)


def list_reading(
    permissions: CallPermissions, digests: dict[str, str], approved: Sequence[str], tool: str = ""
) -> dict[str, Any]:
    """List the fields of a `FileReader`: functions without the objects that they are methods of."""

    def detach(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: function(*arguments)  # noqa: PLW0108 (a bound method leads to its object)

    directory, shadow = permissions.terminal.host.directory, permissions.terminal.host.shadow
    guard = permissions.build_path_guard(approved, tool)
    reading: dict[str, Any] = {
        "root": str(shadow.workspace.root),
        "digests": digests,
        "relative": detach(shadow.workspace.to_relative),
        "list_entries": detach(shadow.list_open_dir),
        "pending_paths": lambda: {each.path: each.operation for each in shadow.list_changes()},
        "read_spilled": lambda path: read_spilled(directory, path),
        "check_path": detach(guard.check),
        "look_up": detach(shadow.stat),
        "read": detach(shadow.read_existing),
        "find_rules": lambda names: fetch_rules(permissions, names, tuple(digests)),
        "find_skill": lambda request: open_skill(permissions, request),
        "run_linter": lambda job, pending: run_linter(permissions, job, pending=pending),
    }
    added = permissions.added_directories
    return reading if added is None else reading | _reach_added(reading, added, guard)


def _reach_added(reading: dict[str, Any], added: AddedDirectories, guard: PathGuard) -> dict[str, Any]:
    """Return the functions that differ where further directories can be read, by absolute paths."""

    def relative(path: str) -> str:
        try:
            own: str = reading["relative"](path)
        except PathRefused:
            if found := added.locate(path):
                return found
            raise
        return own

    def check(access: Access, path: str) -> None:
        if not path.startswith("/"):
            reading["check_path"](access, path)
        elif access is not Access.READ:
            raise PathRefused(f"{path!r} is not in the project: it can only be read.", code="read_only")
        elif guard.allowed or guard.decide_added(path, is_secret=added.is_secret(path)).choice != "allow":
            raise PathRefused(f"{path!r} is kept from the agent.", code="path_denied")

    def choose(name: str, other: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, *more: (other if path.startswith("/") else reading[name])(path, *more)

    return {
        "relative": relative,
        "check_path": check,
        "look_up": choose("look_up", added.stat),
        "read": choose("read", added.read),
        "list_entries": choose("list_entries", added.list_dir),
    }


def build_reader(
    permissions: CallPermissions, digests: dict[str, str], approved: Sequence[str] = (), tool: str = ""
) -> FileReader:
    """Build a READ capability. `digests`: what the model has read; `approved`: files that the user said yes to; `tool`:
    who reads."""
    return FileReader(**list_reading(permissions, digests, approved, tool))
