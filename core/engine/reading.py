"""A session that another program has open, as its log has it: a client that answers what concerns the review.

It opens nothing for writing: neither the session's lock nor its directory is touched, and the other program goes on.
Every command is refused with the reason that the session can't be opened here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from core.engine.queries import changes
from core.engine.session.pending_changes import ReviewedSession
from core.errors import AgentTuiError, CommandRejected, StateError
from core.git.credentials import register_git_credentials
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.events import Envelope
from core.sessions.log import read_log
from core.sessions.store import LOG_FILE, SessionStore
from core.shadow.content.blob_store import BlobStore
from core.shadow.shadow import Shadow
from core.state.fold import apply_event
from core.state.session import SessionState
from core.workspace import Workspace

_ANSWERS: Final[Mapping[type, Callable[[Any, Any], q.AnyAnswer | Awaitable[q.AnyAnswer]]]] = {
    q.DiffQuery: changes.answer_diff,
    q.GitPreviewQuery: changes.answer_git_preview,
    q.CommitQuery: changes.answer_commit,
    q.PatchQuery: changes.answer_patch,
    q.PullRequestQuery: changes.answer_pull_request,
}


class _ReadSession:
    """The state and the shadow of a session, folded from its log."""

    def __init__(self, directory: Path, workspace: Workspace) -> None:
        self.envelopes: dict[int, Envelope] = {}
        self.workspace = workspace
        self.state = SessionState(session_id=directory.name, recall=self._recall)
        read_log(directory / LOG_FILE, self._take)  # a record that is just being written is left out
        blobs = BlobStore(directory / "blobs", is_read_only=True)
        self.shadow = Shadow(workspace, blobs, _refuse_event, self.state.review)

    def _take(self, envelope: Envelope) -> None:
        self.envelopes[envelope.seq] = envelope
        apply_event(self.state, envelope)

    def _recall(self, numbers: Iterable[int]) -> Iterator[Envelope]:
        return (self.envelopes[number] for number in numbers)


def _refuse_event(event: ev.AnyEvent) -> None:
    raise StateError(f"nothing is recorded in a session that is only read ({type(event).__name__}).")


class SessionReader:
    """The client of one session of the project in `directory`, as it was when this was created. `refusal`: why the
    session can't be opened. Raises `AgentTuiError`."""

    def __init__(self, directory: Path, session: str, refusal: AgentTuiError) -> None:
        self._refusal = refusal
        workspace = Workspace(directory)
        register_git_credentials(workspace.root)
        self._session = _ReadSession(SessionStore(directory).get_path(session), workspace)

    def require_session(self, session: str) -> ReviewedSession:
        """Return the session. Raises `CommandRejected` for any other one."""
        if session != self._session.state.session_id:
            raise CommandRejected(f"no session {session!r} is open.", code="session_unknown")
        return self._session

    async def submit(self, _: cmd.AnyCommand) -> cmd.Reply:
        """Refuse a command, since the other program alone writes."""
        problem = self._refusal
        return cmd.Reject(code=problem.code, message=problem.message, hint=problem.hint)

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncGenerator[Envelope]:
        """Yield the events of the log with `seq > after`, and end."""
        self.require_session(session)
        for envelope in self._session.envelopes.values():
            if envelope.seq > after:
                yield envelope

    async def query(self, query: q.AnyQuery) -> q.AnyAnswer:
        """Answer a query about the review; others are refused."""
        if isinstance(query, q.IdleQuery):
            return q.IdleAnswer(seq=self._session.state.seq)
        problem: AgentTuiError = self._refusal
        if (answer := _ANSWERS.get(type(query))) is not None:
            try:
                reply = await asyncio.to_thread(answer, self, query)
                return await reply if inspect.isawaitable(reply) else reply
            except AgentTuiError as fault:
                problem = fault
        return q.RefusedAnswer(code=problem.code, message=problem.message, hint=problem.hint)

    async def close(self) -> None:
        """Do nothing: nothing was opened."""
