"""The language servers of a session: started with the first edit or request of a language, queried after every edit.

They run in the sandbox over the merged view and get the pending texts, so nothing is written for them. Callers wait for
a bounded time; late results are reported later. New diagnostics become one event per file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from core.config.settings import ServerSettings
from core.errors import AgentTuiError, ToolFailed
from core.languages import detect_language
from core.lsp.checked_files import CheckedFiles, ProjectTexts, TextPair
from core.lsp.diagnostics import cut_diagnostics, find_new_diagnostics, sort_diagnostics
from core.lsp.server_table import LocatedServer, ServerFinder, configure_servers
from core.modes import Access, Mode
from core.protocol import events as ev
from core.protocol.language import Diagnostic
from core.shell.command_host import CommandHost
from core.tasks import TaskOwner, is_loop_running
from core.text.lines import split_lines

if TYPE_CHECKING:  # the protocol is imported when the first server starts
    from core.lsp.connection import QuestionKind, ServerConnection
    from core.lsp.supervision import StartServer, SupervisedServer

MAX_SERVERS: Final = 6
QUESTION_LIMIT: Final = 20.0  # seconds that a request for diagnostics waits
MAX_READ: Final = 20  # files that the model has read and that are checked when others change
MAX_CHANGED: Final = 200  # files that are checked after a command that changed very many
_REPORTED_SEVERITIES: Final = frozenset({"error", "warning"})
ServerKey = tuple[str, str]
Pairs = dict[str, TextPair | None]


class LanguageServers:
    """The servers of one session. `explain_refusal(command, directory)`: the reason why one may not run; None: it
    may."""

    def __init__(
        self,
        host: CommandHost,
        get_settings: Callable[[], Mapping[str, ServerSettings]],
        explain_refusal: Callable[[str, str], str | None],
        start: StartServer | None = None,
    ) -> None:
        self.texts = ProjectTexts(host.shadow)
        self._host, self._get_settings, self._explain_refusal = host, get_settings, explain_refusal
        self._start = start
        self._servers: dict[ServerKey, SupervisedServer] = {}
        self._files: dict[ServerKey, CheckedFiles] = {}
        self._located: dict[tuple[str, str], tuple[LocatedServer, ...]] = {}
        self._dirty: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._reported: dict[str, tuple[tuple[Diagnostic, ...], Sequence[str]]] = {}
        self._all_diagnostics: dict[str, tuple[Diagnostic, ...]] = {}  # including those that the events omit
        self._checked_servers: dict[str, None] = {}
        self._disk_count = 0
        self._check_task: asyncio.Task[None] | None = None
        self._tasks = TaskOwner()
        self._is_closed = False

    def observe_change(self, event: ev.ChangeProposed | ev.ChangeRevised | ev.ChangeResolved) -> None:
        """Record a change, which is checked as soon as possible."""
        self._mark_dirty(event.path if isinstance(event, ev.ChangeResolved) else event.change.path)

    def observe_read(self, path: str) -> None:
        """Record a file that the model has read, if it may edit: other edits may break it."""
        if path not in self._read and Access.PROPOSE in Mode(self._host.state.mode).rules.grants:
            self._read[path] = None
            for oldest in list(self._read)[:-MAX_READ]:
                del self._read[oldest]
            self._mark_dirty(path)

    def observe_disk(self, paths: Iterable[str]) -> None:
        """Record files that changed on disk (none = too many to name)."""
        tracked_paths = {path for files in self._files.values() for path in files.pairs}
        paths = tuple(paths)
        for path in tracked_paths.intersection(paths):
            self._mark_dirty(path)
        if self._servers and (not paths or any(path not in tracked_paths and detect_language(path) for path in paths)):
            self._disk_count += 1  # the servers restart before the next request
        self._located.clear()

    def _mark_dirty(self, path: str) -> None:
        if self._is_closed or not detect_language(path) or not is_loop_running():
            return
        self._dirty[path] = None
        if self._check_task is None or self._check_task.done():
            self._check_task = self._tasks.start(self._check_dirty(), name="language servers")

    async def settle(self, seconds: float) -> bool:
        """Wait for pending checks, at most `seconds`. True if none is left."""
        if self._check_task is not None and not self._check_task.done():
            await asyncio.wait({self._check_task}, timeout=seconds)
        return self._check_task is None or self._check_task.done()

    async def _check_dirty(self) -> None:
        while self._dirty and not self._is_closed:
            paths = tuple(self._dirty)[-MAX_CHANGED:]
            self._dirty.clear()
            if not await self.can_run():
                return
            plans: dict[ServerKey, Pairs] = {}
            for path, pair, servers in await asyncio.to_thread(self._plan_checks, paths):
                for server in servers:
                    plans.setdefault(self._admit(server), {})[path] = pair
            plans.pop(("", ""), None)
            await asyncio.gather(*(self._check(self._servers[key], pairs) for key, pairs in plans.items()))

    def _plan_checks(self, paths: Iterable[str]) -> list[tuple[str, TextPair | None, tuple[LocatedServer, ...]]]:
        return [(path, self.texts.load_pair(path), self._find_servers(path)) for path in paths]

    async def can_run(self) -> bool:
        """True if the sandbox can contain a server without asking the user."""
        box = await self._host.box.find()
        return box is not None and box.tier.can_run_unasked

    def _find_servers(self, path: str) -> tuple[LocatedServer, ...]:
        language = detect_language(path)
        key = (str(PurePosixPath(path).parent), language)
        servers = self._located.get(key)  # another thread may clear the table
        if servers is None:
            servers = self._located[key] = tuple(self.build_finder().find_servers(path, language))
        return servers

    def build_finder(self) -> ServerFinder:
        """Return the finder of this project's servers."""
        return ServerFinder(
            root=str(self._host.workspace.root),
            specs=configure_servers(self._get_settings()),
            read=self.texts.read_beginning,
            exists=self.texts.exists,
            search_path=self._host.build_environment()["PATH"],
        )

    def _admit(self, server: LocatedServer) -> ServerKey:
        """Return the key of the server to use; ("", "") if it may not run."""
        from core.lsp.supervision import SupervisedServer, format_command, start_in_box

        key, host = server.key, self._host
        if key not in self._servers:
            is_full = len(self._servers) >= MAX_SERVERS
            if is_full or self._explain_refusal(format_command(server), server.directory) is not None:
                return "", ""
            start = self._start or partial(start_in_box, host)
            self._servers[key] = SupervisedServer(server, host.workspace.root, start, self._report_given_up)
            self._files[key] = CheckedFiles()
        return ("", "") if self._servers[key].given_up else key

    def _report_given_up(self, server: SupervisedServer) -> None:
        message = f"The language server {server.name} is no longer used: {server.given_up}."
        self._host.emit_outside_turn(ev.Notice(level="warning", message=message, hint="`agent-tui doctor` lists them."))

    async def _check(self, server: SupervisedServer, pairs: Pairs) -> None:
        while not server.given_up:
            try:
                await self._check_files(server, pairs)
                break
            except AgentTuiError as problem:
                if problem.code != "server_gone":  # a lost server restarts or is given up with a notice
                    break

    async def _check_files(self, server: SupervisedServer, pairs: Pairs) -> None:
        files, is_linter = self._files[server.located.key], server.located.spec.is_linter
        async with server.lock:
            connection, changed_paths = await self._prepare(server, pairs)
            await files.check(connection, changed_paths, alone=is_linter)
            if files.is_silent:
                files.unanswered = 0
                server.record_crash("it does not answer")
            self._checked_servers[server.name] = None
            self._publish({*changed_paths, *([] if is_linter else files.pairs)})
            connection.on_push = lambda path: self._publish({path})

    async def _prepare(self, server: SupervisedServer, pairs: Pairs) -> tuple[ServerConnection, list[str]]:
        """Return the server with these files up to date, and their paths; a newly started one gets all pending files.
        Raises `ToolFailed`."""
        files, spec = self._files[server.located.key], server.located.spec
        marks = frozenset((*spec.roots, *spec.marks, *spec.mark_words))
        stamp = (self.texts.compute_stamp(marks, is_linter=spec.is_linter), self._disk_count)
        if server.stamp != stamp:
            server.stop()
        connection = await server.ensure_running()
        text_pairs = dict(pairs)
        if not connection.documents:
            files.pairs.clear()
            server.stamp = stamp
            text_pairs = await asyncio.to_thread(self._load_known, server.located) | text_pairs
        await files.update(connection, text_pairs)
        return connection, list(text_pairs)

    def _load_known(self, server: LocatedServer) -> Pairs:
        """Return a server's files that are pending or were read."""
        known_paths = list(dict.fromkeys((*self._host.shadow.state.changes, *self._read)))[-MAX_CHANGED:]
        own_paths = (
            path for path in known_paths if server.key in {candidate.key for candidate in self._find_servers(path)}
        )
        return {path: self.texts.load_pair(path) for path in own_paths}

    @asynccontextmanager
    async def borrow(self, path: str, kind: QuestionKind) -> AsyncIterator[ServerConnection]:
        """Yield the first server of a file that answers such requests, with the file up to date. Raises
        `ToolFailed`."""
        if await self.can_run() and not self._is_closed:
            for server in await asyncio.to_thread(self._find_servers, path):
                key = self._admit(server)
                if key not in self._servers or server.spec.is_linter:
                    continue
                async with self._servers[key].lock:
                    pair = await asyncio.to_thread(self.texts.load_pair, path)
                    connection, _ = await self._prepare(self._servers[key], {path: pair})
                    if path in connection.documents and connection.can_answer(kind):
                        yield connection
                        return
        raise ToolFailed(f"No language server here supports that for {path}.", hint="Use grep.", code="server_missing")

    def _publish(self, paths: Iterable[str]) -> None:
        """Emit the new diagnostics of these files where they changed."""
        review = self._host.shadow.state
        for path in sorted(paths):
            sources, news = [], list[Diagnostic]()
            for key, files in self._files.items():
                connection = self._servers[key].connection
                new = files.find_new(connection, path) if connection is not None else None
                if new is not None:
                    sources.append(key[0])
                    news += [diagnostic for diagnostic in new if diagnostic.severity in _REPORTED_SEVERITIES]
            if not sources:
                continue
            previous_event = review.diagnostics.get(path)
            all_diagnostics = tuple(sort_diagnostics(news))
            if self._all_diagnostics.get(path) != all_diagnostics:
                self._all_diagnostics[path] = all_diagnostics
            diagnostics, errors, warnings = cut_diagnostics(all_diagnostics)
            event = ev.DiagnosticsReported(
                path=path,
                diagnostics=diagnostics,
                sources=tuple(dict.fromkeys(sources)),
                more_errors=errors,
                more_warnings=warnings,
            )
            if path not in review.changes and not news:
                event = ev.DiagnosticsReported(path=path)
            if event != (previous_event or ev.DiagnosticsReported(path=path)):
                self._host.emit_outside_turn(event)

    async def diagnose(self, paths: Iterable[str]) -> tuple[ev.DiagnosticsReported, ...]:
        """Return the known diagnostics of these files after the servers have checked them, or the time is up."""
        paths = tuple(paths)
        for path in paths:
            self._mark_dirty(path)
        await self.settle(QUESTION_LIMIT)
        events = self._host.shadow.state.diagnostics
        pairs = [(events[path], self._all_diagnostics.get(path)) for path in paths if path in events]
        return tuple(
            event
            if all_diagnostics is None
            else replace(event, diagnostics=all_diagnostics, more_errors=0, more_warnings=0)
            for event, all_diagnostics in pairs
        )

    def take_new_diagnostics(self) -> list[Diagnostic]:
        """Return diagnostics that are new since the last call, errors first."""
        news: list[Diagnostic] = []
        review = self._host.shadow.state
        for path in self._reported.keys() - review.diagnostics.keys():
            del self._reported[path]
        for path, event in review.diagnostics.items():
            all_diagnostics = self._all_diagnostics.get(path, event.diagnostics)
            if path in self._reported and self._reported[path][0] is all_diagnostics:
                continue
            lines = split_lines(self.texts.read(path) or "").bodies
            old_diagnostics, told_lines = self._reported.get(path, ((), ()))
            news += find_new_diagnostics(all_diagnostics, old_diagnostics, lines, told_lines)
            self._reported[path] = (all_diagnostics, lines)
        return sort_diagnostics(news)

    def list_errors(self) -> list[Diagnostic]:
        """Return the new errors in the pending texts."""
        events = self._host.shadow.state.diagnostics.values()
        return sort_diagnostics(
            diagnostic for event in events for diagnostic in event.diagnostics if diagnostic.severity == "error"
        )

    def take_sources(self) -> tuple[str, ...]:
        """Return the names of the servers that checked something since the last call."""
        names, self._checked_servers = tuple(self._checked_servers), {}
        return names

    async def close(self) -> None:
        """Stop all servers."""
        self._is_closed = True
        await self._tasks.cancel()
        await asyncio.gather(*(server.close() for server in self._servers.values()))
