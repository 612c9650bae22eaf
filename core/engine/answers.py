"""Questions without an effect: the tree, a file, a diff, what there is to choose from. Slow ones run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import assert_never

from core.config import Settings
from core.engine.file_list import FileList
from core.engine.live import LiveSession
from core.engine.models import ModelAccess
from core.engine.rewinding import checkpoints, preview
from core.errors import AgentTuiError, CommandRejected, PathRefused
from core.languages import language_of
from core.protocol import queries as q
from core.protocol.pictures import Picture, PictureQuery
from core.sessions.listing import list_sessions, prompts_of
from core.sessions.store import SessionStore
from core.sessions.summary import Summary
from core.workspace import IgnoreRules, Workspace

MAX_ENTRIES = 2_000
MAX_PREVIEW = 2_000_000


class Answers:
    """Answers for one workspace; `sessions` are those that are open."""

    def __init__(
        self, workspace: Workspace, settings: Settings, sessions: Mapping[str, LiveSession], store: SessionStore
    ) -> None:
        self.settings = settings
        self._workspace = workspace
        self._sessions = sessions
        self._ignore = IgnoreRules(workspace)
        self._files = FileList(workspace.root)
        self._store = store

    def disk_changed(self) -> None:
        self._files.forget()

    async def answer(self, query: q.AnyQuery) -> q.AnyAnswer:
        """Raises `AgentTuiError` for a question that can't be answered."""
        match query:
            case q.SettingsQuery():
                return q.ScreenSettings(theme=self.settings.ui.theme, keymap=self.settings.ui.keymap)
            case q.SessionsQuery() | q.PromptHistoryQuery():
                return await self._listed(query)
            case q.ModelsQuery() | q.RoutesQuery() | PictureQuery():
                return await self._looked_for(query)
            case q.ContextQuery() | q.PermissionsQuery() | q.PatternQuery() | q.ProbeLogQuery() | q.GitPreviewQuery():
                return await self._about_session(query)
            case q.DiffQuery() | q.HunkQuery() | q.ConflictQuery() | q.CheckpointsQuery() | q.CheckpointPreviewQuery():
                return self._about_changes(query)
            case _:
                return await self._about_files(query)

    async def _about_session(
        self,
        query: q.ContextQuery | q.PermissionsQuery | q.PatternQuery | q.ProbeLogQuery | q.GitPreviewQuery,
    ) -> q.AnyAnswer:
        from core.engine.permission_answers import permissions, preview

        if isinstance(query, q.ContextQuery):
            return await self._context(query)
        live = self._sessions.get(query.session)
        if isinstance(query, q.GitPreviewQuery):
            if live is None:
                raise _no_session(query.session)
            return q.GitPreviewed(preview=await asyncio.to_thread(live.runtime.shadow.bulks.git.preview, query.root))
        if isinstance(query, q.ProbeLogQuery):
            return self._probe_log(query, live)
        if isinstance(query, q.PatternQuery):
            return preview(query, live)
        return await asyncio.to_thread(permissions, self._workspace, self.settings, live)

    async def _looked_for(self, query: q.ModelsQuery | q.RoutesQuery | PictureQuery) -> q.AnyAnswer:
        """What takes its time beside the loop."""
        if not isinstance(query, PictureQuery):
            return await (self._models(query) if isinstance(query, q.ModelsQuery) else self._routes(query))
        from core.attachments.pictures import preview

        live = self._sessions.get(query.session)
        if live is None:
            raise _no_session(query.session)
        data = await asyncio.to_thread(live.runtime.shadow.blobs.get, query.digest)
        return Picture(rows=await asyncio.to_thread(preview, data, query.columns, query.rows))

    def _probe_log(self, query: q.ProbeLogQuery, live: LiveSession | None) -> q.ProbeLog:
        from core.engine.probe_logs import probe_log

        if live is None:
            raise _no_session(query.session)
        return probe_log(live.runtime, query)

    async def _listed(self, query: q.SessionsQuery | q.PromptHistoryQuery) -> q.AnyAnswer:
        known, limit = self._summaries(), query.limit
        if isinstance(query, q.SessionsQuery):
            return q.Sessions(sessions=await asyncio.to_thread(list_sessions, self._store, limit=limit, known=known))
        return q.PromptHistory(prompts=await asyncio.to_thread(prompts_of, self._store, limit=limit, known=known))

    def _summaries(self) -> dict[str, Summary]:
        return {name: live.runtime.summary() for name, live in self._sessions.items()}

    async def _about_files(self, query: q.TreeQuery | q.FileQuery | q.FindQuery) -> q.AnyAnswer:
        live = self._sessions.get(query.session)
        match query:
            case q.TreeQuery(path=path):
                return self._tree(path, live)
            case q.FileQuery():
                return self._file(query, live)
            case q.FindQuery(pattern=pattern, limit=limit, directories=directories):
                pending = [] if live is None else list(live.runtime.review.changes)
                return q.Found(
                    paths=await self._files.find(pattern, limit=limit, directories=directories, extra=pending)
                )
            case _ as unreachable:
                assert_never(unreachable)

    def _about_changes(
        self, query: q.DiffQuery | q.HunkQuery | q.ConflictQuery | q.CheckpointsQuery | q.CheckpointPreviewQuery
    ) -> q.AnyAnswer:
        live = self._sessions.get(query.session)
        if live is None:
            raise _no_session(query.session)
        shadow = live.runtime.shadow
        match query:
            case q.DiffQuery(path=path, context=context):
                return q.Diff(diff=shadow.diff(path, context))
            case q.HunkQuery(path=path, hunk=hunk):
                text, place = shadow.rework.text(path, hunk)
                return q.HunkText(path=path, hunk=hunk, text=text, start=place.new_start, language=language_of(path))
            case q.ConflictQuery(path=path):
                return q.Conflict(sides=shadow.conflicts.sides(path))
            case q.CheckpointsQuery():
                return checkpoints(live.runtime)
            case q.CheckpointPreviewQuery(id=name):
                return preview(live.runtime, name)
            case _ as unreachable:
                assert_never(unreachable)

    def _tree(self, path: str, live: LiveSession | None) -> q.Tree:
        rel = self._workspace.relative(path or ".")
        found = (self._workspace if live is None else live.runtime.shadow).list_dir(rel)
        entries = {entry.name: entry.kind for entry in found}
        marks = {} if live is None else _marks(rel, live)
        for name in marks.keys() - entries.keys():
            entries[name] = "file"
        above = "" if rel == "." else f"{rel}/"
        rows = [
            q.TreeEntry(
                name=name,
                kind=kind,
                ignored=self._ignore.is_ignored(above + name, kind == "directory"),
                mark=marks.get(name, ""),
            )
            for name, kind in sorted(entries.items(), key=lambda each: (each[1] != "directory", each[0].lower()))
            if above + name != ".git"
        ]
        return q.Tree(
            path="" if rel == "." else rel, entries=tuple(rows[:MAX_ENTRIES]), truncated=max(len(rows) - MAX_ENTRIES, 0)
        )

    def _file(self, query: q.FileQuery, live: LiveSession | None) -> q.FileText:
        limit = max(1, min(query.max_bytes, MAX_PREVIEW))
        try:
            rel = self._workspace.relative(query.path)
            view = self._workspace if live is None or query.side == "workspace" else live.runtime.shadow
            stat = view.stat(rel)
            if stat is None:
                return q.FileText(path=rel, text="", problem="There is no such file.")
            size = stat.size
            data = (view.read_bytes(rel, limit) if isinstance(view, Workspace) else view.read(rel, limit)) or b""
        except PathRefused as refused:
            return q.FileText(path=query.path, text="", problem=refused.explained())
        text, problem = _decoded(data, size=size, limit=limit)
        return q.FileText(path=rel, text=text, language=language_of(rel), size=size, problem=problem)

    async def _models(self, query: q.ModelsQuery) -> q.Models:
        from core.providers.registry import discover

        return await discover(self.settings, probe=query.discover)

    async def _routes(self, query: q.RoutesQuery) -> q.RoutesTable:
        from core.engine.route_table import route_table

        live = self._sessions.get(query.session)
        state = live.runtime.state if live is not None else None
        models = live.runtime.models if live is not None else ModelAccess()
        return await asyncio.to_thread(route_table, self.settings, models, state)

    async def _context(self, query: q.ContextQuery) -> q.ContextReport:
        live = self._sessions.get(query.session)
        if live is None:
            raise _no_session(query.session)
        from core.engine.context_report import report

        return await report(live.turns.context, live.runtime.state)


def _no_session(session: str) -> AgentTuiError:
    return CommandRejected(f"no session {session!r} is open.", hint="Open or resume one first.", code="session_unknown")


def _marks(rel: str, live: LiveSession) -> dict[str, str]:
    """The pending mark of each name in a directory."""
    above = "" if rel == "." else f"{rel}/"
    marks: dict[str, str] = {}
    for path, change in live.runtime.review.changes.items():
        if path.startswith(above):
            name, slash, _ = path[len(above) :].partition("/")
            marks[name] = "edit" if slash else change.operation
    return marks


def _decoded(data: bytes, *, size: int, limit: int) -> tuple[str, str]:
    """The text of a file and why there is none ("" = there is)."""
    if size > limit:
        return "", f"The file has {size:,} bytes; up to {limit:,} are shown."
    if b"\0" in data[:8192]:
        return "", f"A binary file of {size:,} bytes."
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), ""
