"""Controllers: parts of the main screen's behaviour, with their actions and message handlers.

A controller is neither a widget nor a mixin. Its constructor takes the `ScreenContext` and the controllers that it
calls. The screen passes messages to its `@on` handlers; the action `review.accept_all` of the key table is the method
`action_accept_all` of the controller that the screen names `review`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar, TypeVarTuple

from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker

from core.patterns import compile_lazily
from core.protocol import commands, queries
from tui.bridge import Bridge, SessionRequest
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.state import ViewState
from tui.text import fit_line
from tui.widgets.side_pane import wait_until_mounted
from tui.workers import start_worker

if TYPE_CHECKING:
    from core.protocol.events import ModeName
    from tui.dialogs.dialog import Dialog

T = TypeVar("T")
A = TypeVar("A")
C = TypeVar("C", bound="Controller")
P = ParamSpec("P")
W = TypeVar("W", bound=Widget)
Ts = TypeVarTuple("Ts")
Handler = Callable[..., Awaitable[None] | None]
# Errors of the engine begin in lower case, to follow a colon. Other first words may be names of files or settings.
_FIRST_WORD: Final = compile_lazily(r"\A(?:an?|it|no|only|the|there|this)\b(?= )")


class ScreenContext:
    """The main screen as every controller sees it: session at the engine, notifications, dialogs and workers."""

    def __init__(self, screen: Screen[None], bridge: Bridge, request: SessionRequest) -> None:
        self.screen, self.bridge = screen, bridge
        self._request = request

    @property
    def state(self) -> ViewState:
        return self.bridge.state

    @property
    def mode(self) -> ModeName:
        """The mode in force, or the one requested until a session is open."""
        return self.state.mode if self.state.session_id else self._request.mode

    @property
    def prompt(self) -> Prompt:
        return self.screen.query_one(Prompt)

    @property
    def transcript(self) -> Transcript:
        return self.screen.query_one(Transcript)

    def focus_prompt(self) -> None:
        """Focus the prompt, at once: the next letter may be on its way."""
        self.screen.set_focus(self.prompt)

    def notify_user(self, message: str, hint: str = "", *, is_error: bool = False) -> None:
        """Show a toast. The text may be foreign, as no markup in it is interpreted."""
        sentence = _FIRST_WORD.sub(lambda word: word[0].capitalize(), message)
        text = fit_line(f"{sentence} {hint}".strip(), 400)
        self.screen.app.notify(text, severity="error" if is_error else "information", markup=False, timeout=6)

    async def submit(self, command: commands.AnyCommand) -> bool:
        """Submit a command; a refusal becomes a toast. True when it was accepted."""
        reply = await self.bridge.submit(command)
        if isinstance(reply, commands.Reject):
            self.notify_user(reply.message, reply.hint, is_error=True)
        return isinstance(reply, commands.Ack)

    async def query(self, question: queries.AnyQuery, kind: type[A], problem: str = "") -> A | None:
        """Query the engine. Return None for any other kind of answer; with a `problem`, show it or the answer's
        message."""
        answer = await self.bridge.query(question)
        if isinstance(answer, kind):
            return answer
        if problem:
            self.notify_user(answer.message if isinstance(answer, queries.RefusedAnswer) else problem, is_error=True)
        return None

    async def wait_until(self, holds: Callable[[], object], *, seconds: float) -> None:
        """Wait until a condition on the state holds, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not holds():
                    await self.bridge.wait_until_caught_up(self.state.seq + 1)

    def submit_soon(self, command: commands.AnyCommand) -> None:
        """Submit a command without waiting, for message handlers."""
        self.start(self.submit, command, group="commands")

    def start(
        self, work: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, group: str, exclusive: bool = False
    ) -> Worker[T]:
        """Start `work(*args)` as a worker of the screen; `exclusive`: it replaces other workers of its `group`."""
        return start_worker(self.screen, work, *args, group=group, exclusive=exclusive)

    async def ask(self, dialog: Dialog[T]) -> T | None:
        """Show a dialog and return its answer. For workers only."""
        return await self.screen.app.push_screen_wait(dialog)

    def show(self, dialog: Dialog[T], on_answer: Callable[[T | None], None] | None = None) -> None:
        """Show a dialog without waiting for it; `on_answer` receives its answer."""
        _ = self.screen.app.push_screen(dialog, on_answer)

    def confirm(self, dialog: Dialog[bool], on_confirm: Callable[[], None]) -> None:
        """Show a question without waiting for it; a yes calls `on_confirm`."""
        self.show(dialog, lambda is_agreed: on_confirm() if is_agreed else None)

    def find_bar(self, name: str) -> Widget | None:
        """Return the bar `#name` between conversation and prompt; None: it is not there yet."""
        return next((bar for bar in self.screen.query(f"#{name}") if bar.is_mounted), None)

    async def ensure_bar(self, kind: type[W], name: str) -> W:
        """Return the bar `#name` between conversation and prompt; it is mounted when it is first needed."""
        if not self.screen.query("#centre"):  # the screen is gone, and with it the worker that would draw on it
            raise asyncio.CancelledError
        bar = next(iter(self.screen.query(f"#{name}").results(kind)), None)
        if bar is None:
            bar = kind(id=name)
            _ = self.screen.query_one("#centre").mount(bar, before="#prompt")
        await wait_until_mounted(bar)
        return bar


def in_worker(
    group: str, *, exclusive: bool = True
) -> Callable[[Callable[Concatenate[C, P], Coroutine[Any, Any, None]]], Callable[Concatenate[C, P], None]]:
    """Wrap a coroutine of a controller in a function that starts it as a worker, like `ScreenContext.start`."""

    def decorate(work: Callable[Concatenate[C, P], Coroutine[Any, Any, None]]) -> Callable[Concatenate[C, P], None]:
        @wraps(work)
        def start(self: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
            self.context.start(partial(work, self, *args, **kwargs), group=group, exclusive=exclusive)

        return start

    return decorate


class Controller:
    """A part of the main screen's behaviour. `@on` handlers take no selector."""

    _handlers: ClassVar[dict[type, list[Handler]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._handlers = {}
        for member in vars(cls).values():
            for message_type, _ in getattr(member, "_textual_on", ()):
                cls._handlers.setdefault(message_type, []).append(member)

    def __init__(self, context: ScreenContext) -> None:
        self.context = context

    def find_handlers(self, kind: type[Message]) -> Iterator[Handler]:
        """Yield the bound handlers of a kind of message, as Textual does for the methods of a widget."""
        for message_type in kind.__mro__:
            for handler in self._handlers.get(message_type, ()):
                yield handler.__get__(self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Return True, as actions of controllers are always available. Textual asks every target of an action."""
        return True
