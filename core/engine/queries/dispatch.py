"""Queries (without an effect): the tree, a file, a diff, models, permissions. Slow ones run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import assert_never

from core.config import Settings
from core.engine.commands.checkpoints import list_checkpoints, preview_checkpoint
from core.engine.models import ModelAccess
from core.engine.queries.file_list import FileList
from core.engine.session.live_session import LiveSession
from core.errors import AgentTuiError, CommandRejected, PathRefused
from core.languages import detect_language
from core.protocol import queries as q
from core.protocol.pictures import PictureAnswer, PictureQuery
from core.sessions.listing import list_sessions, load_prompts
from core.sessions.store import SessionStore
from core.sessions.summary import SessionSummary
from core.workspace import IgnoreRules, Workspace

MAX_ENTRIES = 2_000
MAX_PREVIEW = 2_000_000


class QueryDispatcher:
    """Answers queries about one workspace. `sessions`: the open ones, by id."""

    def __init__(
        self, workspace: Workspace, settings: Settings, sessions: Mapping[str, LiveSession], store: SessionStore
    ) -> None:
        self.settings = settings
        self._workspace = workspace
        self._sessions = sessions
        self._ignore = IgnoreRules(workspace)
        self._files = FileList(workspace.root)
        self._store = store

    def forget_file_list(self) -> None:
        """Drop the cached file list; the next search lists again."""
        self._files.forget()

    async def answer(self, query: q.AnyQuery) -> q.AnyAnswer:
        """Answer a query. Raises `AgentTuiError` if it can't be answered."""
        match query:
            case q.SettingsQuery():
                return q.SettingsAnswer(theme=self.settings.ui.theme, keymap=self.settings.ui.keymap)
            case q.SessionsQuery() | q.PromptHistoryQuery():
                return await self._list_sessions(query)
            case q.ModelsQuery() | q.RoutesQuery() | PictureQuery():
                return await self._answer_slow_query(query)
            case q.ContextQuery() | q.PermissionsQuery() | q.PatternQuery() | q.ProbeLogQuery() | q.GitPreviewQuery():
                return await self._answer_session_query(query)
            case q.DiffQuery() | q.HunkQuery() | q.ConflictQuery() | q.CheckpointsQuery() | q.CheckpointPreviewQuery():
                return self._answer_change_query(query)
            case _:
                return await self._answer_file_query(query)

    async def _answer_session_query(
        self,
        query: q.ContextQuery | q.PermissionsQuery | q.PatternQuery | q.ProbeLogQuery | q.GitPreviewQuery,
    ) -> q.AnyAnswer:
        from core.engine.queries.permissions import list_permissions, preview_pattern

        if isinstance(query, q.ContextQuery):
            return await self._report_context(query)
        live = self._sessions.get(query.session)
        if isinstance(query, q.GitPreviewQuery):
            if live is None:
                raise _session_unknown(query.session)
            return q.GitPreviewAnswer(
                preview=await asyncio.to_thread(live.runtime.shadow.bulks.git.preview, query.root)
            )
        if isinstance(query, q.ProbeLogQuery):
            return self._load_probe_log(query, live)
        if isinstance(query, q.PatternQuery):
            return preview_pattern(query, live)
        return await asyncio.to_thread(list_permissions, self._workspace, self.settings, live)

    async def _answer_slow_query(self, query: q.ModelsQuery | q.RoutesQuery | PictureQuery) -> q.AnyAnswer:
        """Answer what takes its time, in a thread."""
        if not isinstance(query, PictureQuery):
            return await (
                self._list_models(query) if isinstance(query, q.ModelsQuery) else self._build_route_table(query)
            )
        from core.attachments.pictures import render_preview

        live = self._sessions.get(query.session)
        if live is None:
            raise _session_unknown(query.session)
        data = await asyncio.to_thread(live.runtime.shadow.blobs.get, query.digest)
        return PictureAnswer(rows=await asyncio.to_thread(render_preview, data, query.columns, query.rows))

    def _load_probe_log(self, query: q.ProbeLogQuery, live: LiveSession | None) -> q.ProbeLogAnswer:
        from core.engine.probe_logs import load_probe_log

        if live is None:
            raise _session_unknown(query.session)
        return load_probe_log(live.runtime, query)

    async def _list_sessions(self, query: q.SessionsQuery | q.PromptHistoryQuery) -> q.AnyAnswer:
        known, limit = self._summarize_open_sessions(), query.limit
        if isinstance(query, q.SessionsQuery):
            return q.SessionsAnswer(
                sessions=await asyncio.to_thread(list_sessions, self._store, limit=limit, known=known)
            )
        return q.PromptHistoryAnswer(
            prompts=await asyncio.to_thread(load_prompts, self._store, limit=limit, known=known)
        )

    def _summarize_open_sessions(self) -> dict[str, SessionSummary]:
        return {name: live.runtime.build_summary() for name, live in self._sessions.items()}

    async def _answer_file_query(self, query: q.TreeQuery | q.FileQuery | q.FindQuery) -> q.AnyAnswer:
        live = self._sessions.get(query.session)
        match query:
            case q.TreeQuery(path=path):
                return self._list_tree(path, live)
            case q.FileQuery():
                return self._read_file(query, live)
            case q.FindQuery(pattern=pattern, limit=limit, directories=directories):
                pending = [] if live is None else list(live.runtime.review.changes)
                return q.FindAnswer(
                    paths=await self._files.find(pattern, limit=limit, directories=directories, extra=pending)
                )
            case _ as unreachable:
                assert_never(unreachable)

    def _answer_change_query(
        self, query: q.DiffQuery | q.HunkQuery | q.ConflictQuery | q.CheckpointsQuery | q.CheckpointPreviewQuery
    ) -> q.AnyAnswer:
        live = self._sessions.get(query.session)
        if live is None:
            raise _session_unknown(query.session)
        shadow = live.runtime.shadow
        match query:
            case q.DiffQuery(path=path, context=context):
                return q.DiffAnswer(diff=shadow.diff(path, context))
            case q.HunkQuery(path=path, hunk=hunk):
                text, place = shadow.hunk_edits.read_text(path, hunk)
                return q.HunkAnswer(
                    path=path, hunk=hunk, text=text, start=place.new_start, language=detect_language(path)
                )
            case q.ConflictQuery(path=path):
                return q.ConflictAnswer(sides=shadow.conflicts.read_sides(path))
            case q.CheckpointsQuery():
                return list_checkpoints(live.runtime)
            case q.CheckpointPreviewQuery(id=name):
                return preview_checkpoint(live.runtime, name)
            case _ as unreachable:
                assert_never(unreachable)

    def _list_tree(self, path: str, live: LiveSession | None) -> q.TreeAnswer:
        rel = self._workspace.to_relative(path or ".")
        found = (self._workspace if live is None else live.runtime.shadow).list_dir(rel)
        entries = {entry.name: entry.kind for entry in found}
        marks = {} if live is None else _collect_marks(rel, live)
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
        return q.TreeAnswer(
            path="" if rel == "." else rel, entries=tuple(rows[:MAX_ENTRIES]), truncated=max(len(rows) - MAX_ENTRIES, 0)
        )

    def _read_file(self, query: q.FileQuery, live: LiveSession | None) -> q.FileAnswer:
        limit = max(1, min(query.max_bytes, MAX_PREVIEW))
        try:
            rel = self._workspace.to_relative(query.path)
            view = self._workspace if live is None or query.side == "workspace" else live.runtime.shadow
            stat = view.stat(rel)
            if stat is None:
                return q.FileAnswer(path=rel, text="", problem="There is no such file.")
            size = stat.size
            data = (view.read_bytes(rel, limit) if isinstance(view, Workspace) else view.read(rel, limit)) or b""
        except PathRefused as refused:
            return q.FileAnswer(path=query.path, text="", problem=refused.format_with_hint())
        text, problem = _decode_preview(data, size=size, limit=limit)
        return q.FileAnswer(path=rel, text=text, language=detect_language(rel), size=size, problem=problem)

    async def _list_models(self, query: q.ModelsQuery) -> q.ModelsAnswer:
        from core.providers.registry import discover_models

        return await discover_models(self.settings, probe=query.discover)

    async def _build_route_table(self, query: q.RoutesQuery) -> q.RoutesAnswer:
        from core.engine.queries.route_table import build_route_table

        live = self._sessions.get(query.session)
        state = live.runtime.state if live is not None else None
        models = live.runtime.models if live is not None else ModelAccess()
        return await asyncio.to_thread(build_route_table, self.settings, models, state)

    async def _report_context(self, query: q.ContextQuery) -> q.ContextAnswer:
        live = self._sessions.get(query.session)
        if live is None:
            raise _session_unknown(query.session)
        from core.engine.queries.context_report import report_context

        return await report_context(live.turns.context, live.runtime.state)


def _session_unknown(session: str) -> AgentTuiError:
    return CommandRejected(f"no session {session!r} is open.", hint="Open or resume one first.", code="session_unknown")


def _collect_marks(rel: str, live: LiveSession) -> dict[str, str]:
    """Return the pending mark of each name directly in the directory `rel`."""
    above = "" if rel == "." else f"{rel}/"
    marks: dict[str, str] = {}
    for path, change in live.runtime.review.changes.items():
        if path.startswith(above):
            name, slash, _ = path[len(above) :].partition("/")
            marks[name] = "edit" if slash else change.operation
    return marks


def _decode_preview(data: bytes, *, size: int, limit: int) -> tuple[str, str]:
    """Return the text of a file and why there is none ("" = there is)."""
    if size > limit:
        return "", f"The file has {size:,} bytes; up to {limit:,} are shown."
    if b"\0" in data[:8192]:
        return "", f"A binary file of {size:,} bytes."
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), ""
