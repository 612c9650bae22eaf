"""The turns of one session: one at a time, from the prompt to `turn.finished`, whatever happens in between."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import threading
from collections.abc import Awaitable, Callable

from core.agent.leash import Leash
from core.agent.session import Route, SessionContext
from core.engine.debug_end import end_debugging
from core.engine.faults import explained
from core.engine.models import ModelAccess
from core.engine.recovery import close_open_turn
from core.engine.routes import Routes, wanted
from core.engine.runtime import SessionRuntime
from core.errors import AgentTuiError, CommandRejected
from core.ids import new_id
from core.modes import Mode
from core.permissions.voices import everything
from core.protocol.events import Notice, PromptSuggested, SteerReturned, TurnEnd, TurnStarted, TurnSteered
from core.providers.base import Suggesting

Work = Callable[[SessionContext], Awaitable[None]]
STOP_LIMIT = 5.0


def _preload(models: ModelAccess, model: str) -> None:
    try:
        models.preload(model)
    except Exception:  # the turn will meet the same fault and say so
        return


class Turns:
    """Runs the turns of a session and keeps what lives from one to the next: the context and the provider."""

    def __init__(self, session: SessionRuntime) -> None:
        self._session = session
        self._models = session.models
        self._task: asyncio.Task[None] | None = None
        self._context: SessionContext | None = None
        self._routes = Routes(session)
        self._warming: asyncio.Task[None] | None = None
        self._reserved = False
        self.stopping = False
        self.leash: Leash | None = None

    @property
    def running(self) -> bool:
        return self._reserved or (self._task is not None and not self._task.done())

    @property
    def context(self) -> SessionContext | None:
        """The context of the turn that ran last; None before the first."""
        return self._context

    def route(self) -> Route:
        """The provider of the chosen model. Raises `ConfigError` or `ProviderError` if there is none of that name."""
        return self._routes.chosen()

    def say_route(self) -> None:
        """Tell the clients who answers from now on, if that is news. A turn that runs goes on as it began; the next one
        says it."""
        if not self.running:
            self._routes.say()

    def check_model(self, model: str) -> None:
        """Raises `ConfigError` or `ProviderError` for a model that can't be used."""
        self._models.resolve(model, self._session.settings)

    def preload(self) -> None:
        """Import the SDK of the chosen model while the user still types."""
        model, _ = wanted(self._session.state, self._session.settings)
        if model:
            threading.Thread(target=_preload, args=(self._models, model), daemon=True, name="preload").start()
            if self._warming is None:
                self._warming = asyncio.create_task(self._warm_up(), name=f"warming {self._session.id}")

    def trust_changed(self) -> None:
        """Rules are read anew for the next turn; a session in which nothing was said yet begins with them."""
        if self._context is None:
            return
        self._context.trusted = self._session.trusted
        self._context.preparing = None
        if not self._session.state.messages:
            from core.agent.prefix import forget

            forget(self._session.directory.path)
            self._context.spoken.clear()
            self._warming = asyncio.create_task(self._warm_up(), name=f"warming {self._session.id}")

    async def _warm_up(self) -> None:
        """Read rules and layout and make the prefix while the user still types; the turn meets every fault again."""
        with contextlib.suppress(Exception):
            await asyncio.to_thread(self._routes.resolve)
            await asyncio.to_thread(importlib.import_module, "core.agent.loop")
            if not self.running:
                from core.agent.context import prepared

                await prepared(self.ready_context())

    async def reserve(self) -> None:
        """Claim the next turn. `CommandRejected` while one runs, unless it is being stopped, which is waited for; else
        what `route` and the log raise."""
        if self.stopping and self._task is not None:
            await asyncio.wait({self._task}, timeout=STOP_LIMIT)
        if self.running:
            raise CommandRejected(
                "a turn is running.", hint="Wait for its end, interrupt it, or steer it.", code="turn_running"
            )
        self._reserved = True
        try:
            self._session.log.flush()
            await asyncio.to_thread(self._routes.resolve)
        except BaseException:
            self._reserved = self.stopping = False
            raise

    def start(self, prompt: str, open_files: tuple[str, ...] = (), *, instruction: str = "") -> None:
        """Begin the turn that was reserved. `instruction` is what the model is sent in place of the prompt."""

        async def work(context: SessionContext) -> None:
            from core.agent.loop import Turn

            await Turn(context, prompt, open_files, instruction=instruction).run()

        self._begin(work, prompt)

    def start_build(self, prompt: str, plan: str, todo: str, instruction: str) -> None:
        """Begin the turn that was reserved as one that works a plan, or one todo of it."""

        async def work(context: SessionContext) -> None:
            from core.agent.loop import Turn

            context.building, context.building_todo = plan, todo
            try:
                await Turn(context, prompt, (plan,), instruction=instruction).run()
            finally:
                context.building = context.building_todo = ""

        self._begin(work, prompt)

    def start_work(self, prompt: str, work: Work) -> None:
        """Begin the turn that was reserved as one that does something else than ask the model; it says itself that it
        begins and ends."""
        self._begin(work, prompt)

    async def ended(self) -> None:
        """Until the turn that runs has ended. When this is cancelled the turn is interrupted, and waited for."""
        task = self._task
        if task is None:
            return
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self.interrupt()
            await asyncio.wait({task}, timeout=STOP_LIMIT)
            raise

    def start_compaction(self) -> None:
        """Replace the history by a summary; nothing else runs meanwhile."""

        async def work(context: SessionContext) -> None:
            from core.agent.compaction import compact
            from core.agent.context import prepared

            before = list(context.state.messages)
            await compact(context, (await prepared(context)).size)
            if list(context.state.messages) == before:
                self._session.emit(Notice(level="info", message="The history is short: there is nothing to compact."))

        self._begin(work, None)

    def _begin(self, work: Work, prompt: str | None) -> None:
        self._task = asyncio.create_task(self._run(work, prompt), name=f"turn of {self._session.id}")
        self._reserved = False

    async def _run(self, work: Work, prompt: str | None) -> None:
        session = self._session
        session.turn_id = new_id("turn")
        reason: TurnEnd = "failed"
        message = ""
        try:
            context = self.ready_context()
            context.turn = session.turn_id
            await work(context)
        except asyncio.CancelledError:
            reason = "interrupted"
        except AgentTuiError as problem:
            message = problem.explained()
            session.complain(problem)
        except Exception as problem:  # the last line of defence: a fault of ours must not end the engine
            fault = explained(problem)
            message = fault.message
            session.complain(fault)
        if prompt is not None and not any(turn.id == session.turn_id for turn in session.state.turns[-1:]):
            mode, model = session.state.mode, session.state.model
            session.emit_surely(TurnStarted(prompt=prompt, mode=mode, model=model))
        self._finish(reason, message)
        self.stopping = False

    def _finish(self, reason: TurnEnd, message: str) -> None:
        """Whatever the turn left open is closed; its end is on the disk before the next thing happens."""
        session = self._session
        try:
            close_open_turn(session.state, session.emit_surely, reason=reason, message=message)
            end_debugging(session)
            session.terminal.squash()
            session.log.sync()
            session.keep_summary()
        except AgentTuiError as problem:
            session.complain(problem)
        finally:
            session.turn_id = ""
        self.suggest()

    def forget(self) -> None:
        """The conversation is another one now: what the model was told, read and counted no longer holds."""
        if (context := self._context) is not None:
            context.seen.clear()
            context.told.clear()
            context.meter.forget()
            context.floor = 0
        self.suggest()

    def suggest(self) -> None:
        """Offer what the user may say next, if the provider knows."""
        state = self._session.state
        provider: object = self.route().provider if state.demo else self._routes.known and self._routes.known.provider
        if not isinstance(provider, Suggesting):
            return
        if (found := provider.suggestion(state.messages)) is not None:
            self._session.emit_surely(PromptSuggested(text=found.text, mode=Mode(found.mode or state.mode).value))

    def ready_context(self) -> SessionContext:
        """The context as the next turn begins with it."""
        session, route = self._session, self.route()
        if self._context is None:
            self._context = SessionContext(
                id=session.id,
                workspace=session.workspace,
                shadow=session.shadow,
                plans=session.plans,
                state=session.state,
                emit=session.emit,
                settings=session.settings,
                route=route,
                directory=session.directory.path,
                terminal=session.terminal,
                price=session.price,
                interactive=session.interactive,
                private=session.state.private,
                kept=session.permits.remembered,
                exit=session.permits.way_out,
            )
        self._context.trusted, self._context.leash = session.trusted, self.leash
        self._context.hears = session.trusting.hears if session.trusting is not None else everything
        self._context.route, self._context.settings = route, session.settings
        self._context.chain = self._routes.chain("chat")
        self._context.small, self._context.apply = self._routes.chain("small"), self._routes.chain("apply")
        self._context.find_route = self._routes.to
        self._routes.complain()
        self._routes.say()
        return self._context

    def steer(self, text: str, identity: str = "") -> None:
        """A message of the user for the turn that runs; one that comes too late for it is given back."""
        steered = TurnSteered(text=text, id=identity or new_id("steer"))
        self._session.emit(steered)
        if not self.running:
            self._session.emit(SteerReturned(id=steered.id, text=text))

    def take_back(self, ids: tuple[str, ...]) -> None:
        """What was said and not sent is the user's again; what a model was sent meanwhile is not."""
        for identity, text in list(self._session.state.steers.items()):
            if identity in ids or not ids:
                self._session.emit(SteerReturned(id=identity, text=text))

    def interrupt(self) -> None:
        """Stop the turn soon; what it had is kept."""
        if self._task is None or self._task.done():
            return
        if self._context is None or not self._context.interrupt():
            self._task.cancel()

    async def stop(self) -> None:
        """Interrupt, and wait until the turn has ended. Closes the provider."""
        task = self._task
        if task is not None and not task.done():
            self.interrupt()
            await asyncio.wait({task}, timeout=STOP_LIMIT)
            task.cancel()
            await asyncio.wait({task}, timeout=STOP_LIMIT)
        if self._warming is not None:  # it writes into the session's directory, which may be about to go
            await asyncio.wait({self._warming}, timeout=STOP_LIMIT)
        await self.drop_provider()

    async def drop_provider(self) -> None:
        """Forget the providers (a model, a key or an address has changed)."""
        await self._routes.close()
