"""The turns of one session: one at a time, from the prompt to `turn.finished`, whatever happens in between."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import threading
from collections.abc import Awaitable, Callable

from core.agent.turn.subagent_limits import SubagentLimits
from core.agent.turn.turn_context import Route, TurnContext
from core.engine.faults import explain_fault
from core.engine.models import ModelAccess
from core.engine.session.model_routes import ModelRoutes, choose_model
from core.engine.session.probe_cleanup import remove_probes
from core.engine.session.recovery import close_open_turn
from core.engine.session.session import Session
from core.errors import AgentTuiError, CommandRejected
from core.ids import new_id
from core.modes import Mode
from core.permissions.trusted_files import trust_everything
from core.protocol.events import Notice, PromptSuggested, SteerReturned, TurnEnd, TurnStarted, TurnSteered
from core.providers.base import SuggestingProvider

Work = Callable[[TurnContext], Awaitable[None]]
STOP_LIMIT = 5.0


def _preload(models: ModelAccess, model: str) -> None:
    try:
        models.preload(model)
    except Exception:  # the turn will meet the same fault and say so
        return


class TurnRunner:
    """Runs the turns of a session and keeps what lives from one to the next: the context and the provider."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._models = session.models
        self._task: asyncio.Task[None] | None = None
        self._context: TurnContext | None = None
        self._routes = ModelRoutes(session)
        self._warming: asyncio.Task[None] | None = None
        self._reserved = False
        self.is_stopping = False
        self.leash: SubagentLimits | None = None

    @property
    def is_running(self) -> bool:
        return self._reserved or (self._task is not None and not self._task.done())

    @property
    def context(self) -> TurnContext | None:
        """The context of the last turn; None before the first."""
        return self._context

    def open_route(self) -> Route:
        """Return the route of the chosen model. Raises `ConfigError` or `ProviderError`."""
        return self._routes.open_chosen()

    def announce_route(self) -> None:
        """Record which model answers from now on, if that is news. A turn that runs is left alone; the next one does
        it."""
        if not self.is_running:
            self._routes.announce()

    def check_model(self, model: str) -> None:
        """Raise `ConfigError` or `ProviderError` for a model that can't be used."""
        self._models.resolve(model, self._session.settings)

    def preload(self) -> None:
        """Import the SDK of the chosen model while the user still types."""
        model, _ = choose_model(self._session.state, self._session.settings)
        if model:
            threading.Thread(target=_preload, args=(self._models, model), daemon=True, name="preload").start()
            if self._warming is None:
                self._warming = asyncio.create_task(self._warm_up(), name=f"warming {self._session.id}")

    def on_trust_changed(self) -> None:
        """Read rules anew for the next turn; a session without messages gets a new prefix."""
        if self._context is None:
            return
        self._context.is_trusted = self._session.trusted
        self._context.preparing = None
        if not self._session.state.messages:
            from core.agent.context.prefix import delete_prefixes

            delete_prefixes(self._session.directory.path)
            self._context.dialect_setups.clear()
            self._warming = asyncio.create_task(self._warm_up(), name=f"warming {self._session.id}")

    async def _warm_up(self) -> None:
        """Read rules and layout and make the prefix while the user still types; the turn meets every fault again."""
        with contextlib.suppress(Exception):
            await asyncio.to_thread(self._routes.resolve)
            await asyncio.to_thread(importlib.import_module, "core.agent.turn.loop")
            if not self.is_running:
                from core.agent.context.user_message import load_setup

                await load_setup(self.build_context())

    async def reserve(self) -> None:
        """Claim the next turn; waits for one that is being stopped.

        Raises `CommandRejected` while another one runs, and what `open_route` and the log raise.
        """
        if self.is_stopping and self._task is not None:
            await asyncio.wait({self._task}, timeout=STOP_LIMIT)
        if self.is_running:
            raise CommandRejected(
                "a turn is running.", hint="Wait for its end, interrupt it, or steer it.", code="turn_running"
            )
        self._reserved = True
        try:
            self._session.log.flush()
            await asyncio.to_thread(self._routes.resolve)
        except BaseException:
            self._reserved = self.is_stopping = False
            raise

    def start(self, prompt: str, open_files: tuple[str, ...] = (), *, instruction: str = "") -> None:
        """Start the reserved turn. `instruction`: what the model is sent in place of the prompt."""

        async def work(context: TurnContext) -> None:
            from core.agent.turn.loop import Turn

            await Turn(context, prompt, open_files, instruction=instruction).run()

        self._start_task(work, prompt)

    def start_build(self, prompt: str, plan: str, todo: str, instruction: str) -> None:
        """Start the reserved turn as one that works on a plan, or on one todo of it."""

        async def work(context: TurnContext) -> None:
            from core.agent.turn.loop import Turn

            context.build_plan, context.build_todo = plan, todo
            try:
                await Turn(context, prompt, (plan,), instruction=instruction).run()
            finally:
                context.build_plan = context.build_todo = ""

        self._start_task(work, prompt)

    def start_work(self, prompt: str, work: Work) -> None:
        """Start the reserved turn as one that does not ask the model itself; it records its own start and end."""
        self._start_task(work, prompt)

    async def wait_ended(self) -> None:
        """Wait until the running turn has ended. If this is cancelled, the turn is interrupted and waited for."""
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

        async def work(context: TurnContext) -> None:
            from core.agent.context.compaction import compact
            from core.agent.context.user_message import load_setup

            before = list(context.state.messages)
            await compact(context, (await load_setup(context)).size)
            if list(context.state.messages) == before:
                self._session.emit(Notice(level="info", message="The history is short: there is nothing to compact."))

        self._start_task(work, None)

    def _start_task(self, work: Work, prompt: str | None) -> None:
        self._task = asyncio.create_task(self._run(work, prompt), name=f"turn of {self._session.id}")
        self._reserved = False

    async def _run(self, work: Work, prompt: str | None) -> None:
        """Run a turn's work and report what it fails for."""
        session = self._session
        session.turn_id = new_id("turn")
        reason: TurnEnd = "failed"
        message = ""
        try:
            context = self.build_context()
            context.turn_id = session.turn_id
            await work(context)
        except asyncio.CancelledError:
            reason = "interrupted"
        except AgentTuiError as problem:
            message = problem.format_with_hint()
            session.report_error(problem)
        except Exception as problem:  # the last line of defence: a fault of ours must not end the engine
            fault = explain_fault(problem)
            message = fault.message
            session.report_error(fault)
        if prompt is not None and not any(turn.id == session.turn_id for turn in session.state.turns[-1:]):
            mode, model = session.state.mode, session.state.model
            session.emit_surely(TurnStarted(prompt=prompt, mode=mode, model=model))
        self._finish(reason, message)
        self.is_stopping = False

    def _finish(self, reason: TurnEnd, message: str) -> None:
        """Close whatever the turn left open; its end is on the disk before the next thing happens."""
        session = self._session
        try:
            close_open_turn(session.state, session.emit_surely, reason=reason, message=message)
            remove_probes(session)
            session.terminal.squash_layers()
            session.log.sync()
            session.save_summary()
        except AgentTuiError as problem:
            session.report_error(problem)
        finally:
            session.turn_id = ""
        self.suggest()

    def reset_context(self) -> None:
        """Drop what the model was told, read and counted: the conversation is another one now."""
        if (context := self._context) is not None:
            context.read_digests.clear()
            context.announced.clear()
            context.meter.reset()
            context.compacted_tokens = 0
        self.suggest()

    def suggest(self) -> None:
        """Offer a next prompt, if the provider knows one."""
        state = self._session.state
        provider: object = (
            self.open_route().provider if state.is_demo else self._routes.current and self._routes.current.provider
        )
        if not isinstance(provider, SuggestingProvider):
            return
        if (found := provider.suggest(state.messages)) is not None:
            self._session.emit_surely(PromptSuggested(text=found.text, mode=Mode(found.mode or state.mode).value))

    def build_context(self) -> TurnContext:
        """Return the context that the next turn begins with."""
        session, route = self._session, self.open_route()
        if self._context is None:
            self._context = TurnContext(
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
                price=session.compute_cost,
                is_interactive=session.interactive,
                is_private=session.state.is_private,
                opened_saved_rules=session.permissions.saved_rules,
                opened_network_grants=session.permissions.network_grants,
            )
        self._context.is_trusted, self._context.subagent_limits = session.trusted, self.leash
        self._context.hears = session.trusting.is_readable if session.trusting is not None else trust_everything
        self._context.route, self._context.settings = route, session.settings
        self._context.route_chain = self._routes.get_chain("chat")
        self._context.small_routes, self._context.apply_routes = (
            self._routes.get_chain("small"),
            self._routes.get_chain("apply"),
        )
        self._context.find_route = self._routes.open
        self._routes.report_problems()
        self._routes.announce()
        return self._context

    def steer(self, text: str, identity: str = "") -> None:
        """Record a message of the user for the running turn; one that comes too late is given back."""
        steered = TurnSteered(text=text, id=identity or new_id("steer"))
        self._session.emit(steered)
        if not self.is_running:
            self._session.emit(SteerReturned(id=steered.id, text=text))

    def return_steers(self, ids: tuple[str, ...]) -> None:
        """Give messages back to the user that no model was sent yet."""
        for identity, text in list(self._session.state.pending_steers.items()):
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
        await self.close_providers()

    async def close_providers(self) -> None:
        """Close the providers (a model, a key or an address has changed)."""
        await self._routes.close()
