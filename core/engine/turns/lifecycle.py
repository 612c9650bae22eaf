"""Run the turns of a session: one at a time, from the prompt to `turn.finished`, which is emitted after every error."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import threading
from collections.abc import Awaitable, Callable
from functools import partial

from core.agent.base.routes import Route, TurnRoutes
from core.agent.context.memory import ModelMemory
from core.agent.context.offers import Offer
from core.agent.context.prefix import PromptSetup
from core.agent.context.skills import build_skill_offer
from core.agent.context.tool_offers import build_advisor_offer, build_goal_offer, build_program_offer
from core.agent.context.turn_context import PROMPTED, AskAgent, BuildTarget, TurnContext, TurnOrigin
from core.agent.gate.web_opening import build_web_offer, open_web
from core.agent.mentions.sources import PromptSurroundings
from core.clock import now_ms
from core.config.settings import Settings
from core.engine.session.model_routes import choose_model
from core.engine.session.proof import prove_now, start_after_turn
from core.engine.session.recovery import close_open_turn, remove_probes
from core.engine.session.session import Session
from core.engine.session.tasks import explain_fault
from core.engine.shared.models import ModelAccess
from core.engine.turns.goals import end_goal
from core.engine.turns.prompt_sources import open_sources
from core.errors import AgentTuiError
from core.ids import new_id
from core.modes import Access, Mode
from core.permissions.rules import select_rules
from core.protocol.events import Notice, PromptSuggested, TurnEnd, TurnStarted
from core.protocol.messages import AssistantMessage
from core.providers.base import AnswerForm, SuggestingProvider, WarmingProvider
from core.providers.hosted_agents import HostedAgentProvider
from core.sandbox.box import Tier
from core.tools.toolset import COMMAND_TOOLS

Work = Callable[[TurnContext], Awaitable[None]]


async def ask_model(
    context: TurnContext,
    prompt: str,
    surroundings: PromptSurroundings | None = None,
    *,
    instruction: str = "",
    answer: AnswerForm | None = None,
) -> None:
    """Let the model answer, or the hosted agent that replaces it. `instruction`: sent instead of the prompt; `answer`:
    the form of the answer."""
    context.answer = answer
    if context.ask_agent is not None:
        await context.ask_agent(context, prompt, surroundings or PromptSurroundings(), instruction)
        return
    from core.agent.turn.loop import Turn

    await Turn(context, prompt, surroundings, instruction=instruction).run()


async def build_plan(context: TurnContext, prompt: str, target: BuildTarget, instruction: str) -> None:
    """Work on a plan, or on one todo of it ("" = all)."""
    context.build = target
    await ask_model(context, prompt, PromptSurroundings(open_files=(target.plan,)), instruction=instruction)


async def compact_history(context: TurnContext) -> None:
    """Replace the history by a summary."""
    from core.agent.turn.compaction import build_compactor
    from core.agent.turn.prompt_setup import load_setup

    await context.hooks.refresh()
    before = list(context.state.messages)
    setup = await load_setup(context)
    await build_compactor(context, setup).compact(setup.size, is_asked=True)
    if list(context.state.messages) == before:
        context.emit(Notice(level="info", message="The history is short: there is nothing to compact."))


async def reserve_turn(session: Session) -> None:
    """Reserve the next turn. Raises `CommandRejected` while one runs, and the errors of the model's route and the
    log."""
    async with session.turn_slot.reserve():
        session.proof_slot.stop()
        session.log.flush()
        await asyncio.to_thread(session.routes.resolve)


def start_turn(session: Session, work: Work, prompt: str | None, origin: TurnOrigin = PROMPTED) -> None:
    """Start the reserved turn. `prompt` None: the turn is not part of the conversation."""
    session.turn_slot.start(_run_turn(session, work, prompt, origin))


async def _run_turn(session: Session, work: Work, prompt: str | None, origin: TurnOrigin) -> None:
    turn = session.recorder.turn_id = new_id("turn")
    reason: TurnEnd = "failed"
    message = ""
    try:
        await find_box_unattended(session)
        await session.routes.learn(load=True)
        context = session.context = build_context(session)
        context.origin = origin
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
    state = session.state
    if prompt is not None and not any(turn_state.id == turn for turn_state in state.turns[-1:]):
        session.emit_or_defer(
            TurnStarted(prompt=prompt, mode=state.mode, model=state.model, cause=origin.cause, loop=origin.loop)
        )
    _finish_turn(session, reason, message)
    end_goal(session, reason)
    session.turn_slot.is_stopping = False


def _finish_turn(session: Session, reason: TurnEnd, message: str) -> None:
    """Close what the turn left open, and sync its end to the disk."""
    try:
        close_open_turn(session.state, session.emit_or_defer, reason=reason, message=message)
        remove_probes(session)
        session.terminal.squash_layers()
        session.terminal.jobs.update_views_soon()
        session.log.sync()
        session.save_summary()
    except AgentTuiError as problem:
        session.report_error(problem)
    finally:
        session.recorder.turn_id = ""
        session.call_permissions.requested_tools = {}
    start_after_turn(session)
    suggest_prompt(session)


def suggest_prompt(session: Session) -> None:
    """Suggest a next prompt, if the provider has one."""
    state, routes = session.state, session.routes
    route = routes.open() if state.is_demo else routes.current
    provider: object = route and route.provider
    if not isinstance(provider, SuggestingProvider):
        return
    if (suggestion := provider.suggest(state.messages)) is not None:
        session.emit_or_defer(PromptSuggested(text=suggestion.text, mode=Mode(suggestion.mode or state.mode).value))


def _update_permissions(session: Session) -> Settings:
    """Apply the current trust and settings to tool calls; return the settings."""
    permissions, trust = session.call_permissions, session.services.trust
    permissions.is_trusted, permissions.is_trusted_content, permissions.settings = (
        trust.trusted,
        trust.is_readable,
        session.settings,
    )
    return permissions.settings


async def find_box_unattended(session: Session) -> None:
    """Find the box where nobody can be asked, since the list of tools depends on it there."""
    if not session.user.is_interactive:
        await session.terminal.find_box()


def _list_useless_tools(session: Session) -> frozenset[str]:
    """Return the tools of commands where every command would be refused: nothing contains one, nobody can be asked, and
    no rule allows one on the machine."""
    if session.user.is_interactive or session.terminal.host.box.tier is not Tier.NONE:
        return frozenset()
    may_leave = select_rules(session.call_permissions.rules.load(), "Machine", "allow")
    return frozenset() if may_leave else COMMAND_TOOLS


def build_context(session: Session) -> TurnContext:
    """Build the context of a new turn."""
    services, route = session.services, session.routes.open()
    if session.memory is None:
        session.memory = ModelMemory.of_session(session.directory.path)
    settings = _update_permissions(session)
    context = TurnContext(
        tools=session.tools.disable(settings.list_disabled_tools() | _list_useless_tools(session)),
        id=session.id,
        turn_id=session.recorder.turn_id,
        state=session.state,
        emit=session.emit,
        settings=settings,
        directory=session.directory.path,
        plans=session.plans,
        terminal=session.terminal,
        python=session.python,
        languages=session.languages,
        user=session.user,
        routes=_build_routes(session, route, session.memory),
        permissions=session.call_permissions,
        memory=session.memory,
        open_sources=partial(open_sources, session),
        search=services.search,
        hooks=session.hooks,
        outward={Access.EXTERNAL: session.server_access.open_caller, **session.outward},
        is_private=session.state.is_private,
        ask_agent=_find_agent(session, route),
        prove=partial(prove_now, session),
        appended_prompt=services.options.append_system_prompt or "",
    )
    return _install_context(session, context)


def _find_agent(session: Session, route: Route) -> AskAgent | None:
    """Return the function that lets a hosted agent answer, None = the model is no hosted agent."""
    if not isinstance(route.provider, HostedAgentProvider):
        return None
    from core.engine.hosted.turn import ask_hosted

    return partial(ask_hosted, session, route.provider.agent)


def _install_context(session: Session, context: TurnContext) -> TurnContext:
    """Add the parts of a context that need the context itself, and make it the session's unless a turn runs."""
    servers = session.server_access.build_offer(context.window)
    tool_offer = Offer("available_tools", context.permissions.describe_tool_limits)
    directory_offer = Offer("available_directories", context.permissions.describe_added)
    context.offers = (
        build_skill_offer(context),
        tool_offer,
        directory_offer,
        servers,
        build_web_offer(context),
        build_program_offer(context),
        build_goal_offer(context),
        build_advisor_offer(context),
        *session.offers,
    )
    context.outward = {**context.outward, Access.NET: open_web(context, session.open_fetcher)}
    if session.context is None or session.context.working is None:
        session.context = context
    session.routes.announce()
    return context


def _build_routes(session: Session, route: Route, memory: ModelMemory) -> TurnRoutes:
    routes = session.routes
    return TurnRoutes(
        current=route,
        chain=routes.chains["chat"],
        small=routes.chains["small"],
        apply=routes.chains["apply"],
        advisor=routes.chains["advisor"],
        find=routes.open,
        price=session.compute_cost,
        is_estimated=session.is_estimated,
        answered=memory.answered_routes,
    )


def reset_memory(session: Session) -> None:
    """Reset the memory of what the model was sent and has read, since the conversation has changed."""
    if session.memory is not None:
        session.memory.forget()
    suggest_prompt(session)


def announce_route(session: Session) -> None:
    """Record a change of the model that answers, unless a turn runs, which continues with its model."""
    if not session.turn_slot.is_running:
        session.routes.announce()


def preload(session: Session) -> None:
    """Import the SDK of the chosen model, and prepare its prefix, while the user still types."""
    model, _ = choose_model(session.state, session.settings)
    if model:
        # No daemon: native modules that are being imported crash when the interpreter ends.
        arguments = (session.services.models, model)
        threading.Thread(target=_preload_model, args=arguments, name="preload").start()
        if session.warm_up is None:
            session.warm_up = session.tasks.others.start(_warm_up(session), name="warm-up")


def _preload_model(models: ModelAccess, model: str) -> None:
    with contextlib.suppress(Exception):  # the turn will raise and report the same fault
        models.preload(model)


async def _warm_up(session: Session) -> None:
    """Prepare rules, layout, prefix and file list for the first turn, which reports any fault."""
    with contextlib.suppress(Exception):
        await asyncio.to_thread(session.routes.resolve)
        await asyncio.to_thread(importlib.import_module, "core.agent.turn.loop")
        if not session.turn_slot.is_running:
            from core.agent.turn.prompt_setup import load_setup

            await find_box_unattended(session)
            await session.routes.learn()
            context = build_context(session)
            setup = await load_setup(context)
            if session.settings.context.prewarm:
                await _warm_cache(context, setup)
    with contextlib.suppress(Exception):
        await session.server_access.servers.start_listing()
        await session.services.files.load_names()


def warm_on_return(session: Session) -> None:
    """Have the API read the history into its cache again when the user is back, if they chose so and it is lost."""
    if session.settings.context.prewarm and not session.turn_slot.is_running and session.memory is not None:
        session.warm_up = session.tasks.others.start(_warm_again(session), name="warm-up")


async def _warm_again(session: Session) -> None:
    from core.agent.turn.prompt_setup import load_setup

    with contextlib.suppress(Exception):  # The next turn reports any fault.
        context = build_context(session)
        await _warm_cache(context, await load_setup(context))


async def _warm_cache(context: TurnContext, setup: PromptSetup) -> None:
    """Have the API read the history into its cache before the user has written, if it is not there any more."""
    from core.agent.answer.side_requests import record_usage
    from core.agent.turn.prompt_setup import build_request, is_cache_cold

    route, turns = context.routes.current, context.state.turns
    provider: object = route.provider
    terms = route.capabilities.cache
    if not terms.short or not turns or not isinstance(provider, WarmingProvider) or context.is_private:
        return
    messages = list(context.state.messages)
    while messages and isinstance(messages[-1], AssistantMessage):  # A request may not end with an answer.
        messages.pop()
    if messages and is_cache_cold(context):
        context.memory.cached_at = now_ms()
        usage = await provider.warm_up(await build_request(context, setup, messages))
        record_usage("chat", route, context.routes.add_cost(route, usage), context.budget, context.emit)


def on_trust_changed(session: Session) -> None:
    """Have the next turn read the rules again; a session without messages gets a new prefix."""
    if (memory := session.memory) is None:
        return
    session.call_permissions.is_trusted = session.services.trust.trusted
    memory.setup = None
    if not session.state.messages:
        from core.agent.context.prefix import delete_prefixes

        delete_prefixes(session.directory.path)
        memory.dialect_setups.clear()
        session.warm_up = session.tasks.others.start(_warm_up(session), name="warm-up")
