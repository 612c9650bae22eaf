"""A session for a front end without a screen: resume it, follow its events, attach files to it.

A session has one writer. So a session that another process has open (an editor, a server, a screen) is joined through
that process's engine, and its lock is no obstacle; only otherwise an engine is made here. If that process can't be
reached, its session can still be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.engine import Engine
from core.engine.reading import SessionReader
from core.errors import CommandRejected
from core.ids import new_id
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.client import Client, EngineGone
from core.protocol.commands import Ack, Reject, Reply
from core.protocol.events import Envelope
from core.protocol.options import EngineOptions
from core.protocol.queries import AnyAnswer, IdleAnswer, IdleQuery, RefusedAnswer
from core.sessions.store import LOCKED
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState
from core.transports.line_client import LineClient
from core.transports.session_sockets import connect_to_session

Submit = Callable[[cmd.AnyCommand], Awaitable[Any]]
Settle = Callable[[], Awaitable[None]]


class SessionView:
    """Follows one session of a client and folds its events into `state`. `on_event` gets every event after it is
    applied. `brief`: see `Client.events`."""

    def __init__(
        self,
        client: Client,
        session: str,
        on_event: Callable[[Envelope], None] = lambda _: None,
        *,
        brief: bool = True,
    ) -> None:
        self.state = SessionState(session_id=session)
        self._client = client
        self._session = session
        self._on_event = on_event
        self._stream = client.events(session, brief=brief)

    async def wait_until(self, is_met: Callable[[], bool]) -> None:
        """Apply events until the condition holds or the session ends. Raises what the client and `on_event` raise."""
        while not is_met():
            if (envelope := await anext(self._stream, None)) is None:
                return
            apply_event(self.state, envelope, SHARED_STEPS)
            self._on_event(envelope)

    async def settle(self) -> None:
        """Apply the effects of every command that was accepted so far."""
        answer = await self._client.query(IdleQuery(session=self._session))
        if isinstance(answer, IdleAnswer):
            await self.wait_until(lambda: self.state.seq >= answer.seq)

    async def close(self) -> None:
        """End the stream of events."""
        if isinstance(self._stream, AsyncGenerator):
            await self._stream.aclose()


def require_ack(reply: Reply) -> Ack:
    """Return the reply to an accepted command. Raises `CommandRejected` for a rejected one."""
    if isinstance(reply, Reject):
        raise CommandRejected(reply.message, hint=reply.hint, code=reply.code)
    return reply


def require_answer(answer: AnyAnswer) -> AnyAnswer:
    """Return the answer to a query. Raises `CommandRejected` for a refused one."""
    if isinstance(answer, RefusedAnswer):
        raise CommandRejected(answer.message, hint=answer.hint, code=answer.code)
    return answer


async def join_session(session: str) -> LineClient | None:
    """Return a connection to the engine of another process that has a session open; None: there is none."""
    if (client := await connect_to_session(session)) is None:
        return None
    try:
        require_ack(await client.submit(cmd.SessionResume(session=session)))
    except (CommandRejected, EngineGone):
        await client.close()
        return None
    return client


async def resume_session(directory: Path, session: str, options: EngineOptions) -> Client:
    """Return a client that has a session open: of the engine that runs it, else of a new engine. Raises
    `CommandRejected`."""
    if (client := await join_session(session)) is not None:
        return client
    engine = Engine(directory, options=options)
    try:
        require_ack(await engine.submit(cmd.SessionResume(session=session)))
    except BaseException:
        await engine.close()
        raise
    return engine


async def open_to_read(directory: Path, session: str, options: EngineOptions) -> Client:
    """Return a client like `resume_session`; of a session that an unreachable program has open, one that reads its log
    and refuses every command. Raises `CommandRejected`."""
    try:
        return await resume_session(directory, session, options)
    except CommandRejected as problem:
        if problem.code != LOCKED:
            raise
        return await asyncio.to_thread(SessionReader, directory, session, problem)


async def prove_pending(client: Client, view: SessionView, request: cmd.ChangesProve) -> ev.ProofFinished:
    """Prove what is pending, and return the end of the proof. Raises `CommandRejected`."""
    proof = view.state.review.proof
    last = proof.finished
    require_ack(await client.submit(request))
    await view.wait_until(lambda: proof.finished is not None and proof.finished is not last)
    assert proof.finished is not None
    return proof.finished


class SessionAttachments:
    """Attaches files to one session with request ids, so that concurrent clients get the labels of their own files.

    The owner passes every event of the session to `handle_event`. `submit` raises for a rejected command; `settle`
    waits until the effects of accepted commands have arrived.
    """

    def __init__(self, submit: Submit, settle: Settle) -> None:
        self._submit, self._settle = submit, settle
        self._labels: dict[str, str] = {}  # by request; "" = not known yet

    def handle_event(self, event: ev.Event) -> None:
        """Note the label of a request."""
        if isinstance(event, ev.AttachmentAdded) and event.request in self._labels:
            self._labels[event.request] = event.label

    async def attach(self, files: Iterable[cmd.AttachmentAdd]) -> tuple[str, ...]:
        """Attach files and return their labels in the same order. Raises what `submit` raises, and `CommandRejected` if
        the session was closed meanwhile."""
        requests = list[str]()
        for file in files:
            requests.append(request := new_id("att"))
            self._labels[request] = ""
            await self._submit(replace(file, request=request))
        if requests:
            await self._settle()
        labels = tuple(self._labels.pop(request_id) for request_id in requests)
        if not all(labels):
            raise CommandRejected("the session was closed before the files were attached.", code="session_unknown")
        return labels
