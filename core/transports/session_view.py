"""A session as a front end without a screen sees it: its events, folded as they are asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from core.errors import CommandRejected
from core.protocol.client import Client
from core.protocol.commands import Ack, Reject, Reply
from core.protocol.events import Envelope
from core.protocol.queries import IdleAnswer, IdleQuery
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState


class SessionView:
    """Follows one session of a client. `on_event` gets every event, after it counts. `brief`: see `Client.events`."""

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
        """Take events in until the condition holds or the session ends. Raises what client and `on_event` raise."""
        while not is_met():
            if (envelope := await anext(self._stream, None)) is None:
                return
            apply_event(self.state, envelope, SHARED_STEPS)
            self._on_event(envelope)

    async def settle(self) -> None:
        """Take in what every command that was accepted so far has done."""
        answer = await self._client.query(IdleQuery(session=self._session))
        if isinstance(answer, IdleAnswer):
            await self.wait_until(lambda: self.state.seq >= answer.seq)

    async def close(self) -> None:
        """End the stream of events."""
        if isinstance(self._stream, AsyncGenerator):
            await self._stream.aclose()


def require_ack(reply: Reply) -> Ack:
    """Return the reply to a command that was accepted. Raises `CommandRejected` for one that was not."""
    if isinstance(reply, Reject):
        raise CommandRejected(reply.message, hint=reply.hint, code=reply.code)
    return reply
