"""The setup of requests: rules, layout and prefix, in the dialect of the session's model."""

from __future__ import annotations

import asyncio
import platform
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from core.agent.base.permissions import CallPermissions
from core.agent.context.memory import ModelMemory
from core.agent.context.prefix import (
    Prefix,
    PromptSetup,
    build_setup,
    load_or_save_prefix,
    render_system_prompt,
)
from core.agent.context.sent_attachments import AttachmentSender
from core.agent.context.token_meter import measure_messages, measure_prefix
from core.agent.context.turn_context import TurnContext
from core.agent.gate.file_capabilities import FileReader, build_reader
from core.clock import now_ms
from core.config.settings import TurnLimits
from core.dialects.command import CommandDialect
from core.dialects.dialect import Dialect
from core.dialects.native import NativeDialect
from core.dialects.tags import TagDialect
from core.dialects.written_edits import WrittenEdit
from core.edit_formats import EditFormat
from core.modes import Access
from core.prompts import load_short_tool_text, load_tool_text, render
from core.protocol.events import Notice, RulesLoaded
from core.protocol.messages import AssistantMessage, Message
from core.providers.base import AnswerForm, CacheChoice, ModelRequest
from core.sandbox.unboxed_run import find_shell
from core.secrets import mask_secrets
from core.state.session import SessionState, TurnState
from core.text.display_names import shorten_model
from core.tools.external import SearchTools
from core.tools.toolset import Toolset, choose_edit_format
from core.user_dirs import get_config_dir

MAX_PAUSES = 4  # the latest pauses of the user, from which the next one is guessed
CALLS_IN_TEXT = "{} supports no function calls, so it writes its calls as text (tags)."
# Tokens of an answer of a server without a limit: a part of the window, within bounds.
ANSWER_SHARE, MIN_ANSWER, MAX_ANSWER, UNKNOWN_ANSWER = 4, 1_024, 16_384, 8_192
LEAST_DENSE, MOST_DENSE = 2.0, 8.0  # bytes per token of a count that can be right
OTHER_TOOLS = "This version of the program has other tools than the one this session started with."
OTHER_TOOLS_HINT = "The model gets the new list, so the whole conversation is sent uncached once."
# Tools for which the tags dialect has special tags, or which it does not need; messages describe subagents to it.
_TOOLS_WITH_TAGS = frozenset({"search_replace", "edit_blocks", "call_tool", "task"})


async def load_setup(context: TurnContext) -> PromptSetup:
    """Return the setup of requests. It is built once, already while the user types. Raises `ConfigError`."""
    memory = context.memory
    if memory.setup is None or memory.setup.cancelled():
        memory.setup = asyncio.ensure_future(_build_setup(context))
    route = context.routes.current
    key = (memory.setup, context.settings, route.id, context.window, route.capabilities.tools)
    if memory.known_setup is None or memory.known_setup[0] != key:
        try:
            setup = await asyncio.shield(memory.setup)
        except Exception:
            memory.setup = None
            raise
        memory.known_setup = (key, await _apply_dialect(context, setup))
    setup = memory.known_setup[1]
    if setup.is_changed and "prefix" not in memory.announced and _has_answered(context.state.messages):
        memory.announced["prefix"] = "changed"
        context.emit(Notice(level="info", message=OTHER_TOOLS, hint=OTHER_TOOLS_HINT))
    return setup


def _has_answered(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, AssistantMessage) for message in messages)


async def _build_setup(context: TurnContext) -> PromptSetup:
    setup = await asyncio.to_thread(
        build_setup,
        context.terminal.host.workspace,
        context.directory,
        context.tools,
        is_trusted_content=context.permissions.rule_check,
        appended_prompt=context.appended_prompt,
    )
    if setup.loaded and setup.loaded != context.state.rules:
        context.emit(RulesLoaded(rules=setup.loaded))
    return setup


async def _apply_dialect(context: TurnContext, setup: PromptSetup) -> PromptSetup:
    """Return the setup for the session's model: its dialect, its edit tool, and short prompts for a small window.

    It is always the same for one model of a session. Raises `ConfigError` for invalid templates of its dialect.
    """
    _choose_variant(context)
    name, short = context.dialect, context.memory.variants.is_short(context.routes.current.id)
    edits = choose_edit_format(context.routes.current.id, context.settings)
    if name == "native":
        reader = partial(build_reader, context.permissions, context.memory.read_digests)
        model = context.routes.current.id
        accepts = partial(_is_intended, context.state, context.permissions, context.tools, model, reader)
        setup = replace(setup, dialect=NativeDialect(accepts))
        if edits == "search_replace" and not short and not context.routes.current.capabilities.tool_search:
            return setup
    if name != "native":
        await context.terminal.find_box()
    key = f"{name} {edits} {short} {context.routes.current.id} {context.settings.dialects.command}"
    if key not in context.memory.dialect_setups:
        build = _build_native_setup if name == "native" else _build_text_setup
        context.memory.dialect_setups[key] = await asyncio.to_thread(build, context, setup, short=short)
    return replace(setup, **context.memory.dialect_setups[key])


def _is_intended(
    state: SessionState,
    permissions: CallPermissions,
    tools: Toolset,
    model: str,
    open_reader: Callable[[], FileReader],
    candidate: WrittenEdit,
) -> bool:
    from core.agent.gate.text_edits import is_intended  # Rarely needed, and it imports the edit formats.

    return is_intended(candidate, state, permissions, tools, model, open_reader)


def _choose_variant(context: TurnContext) -> None:
    """Choose the prompt variant, once per model. A configured dialect wins over the model's known capabilities."""
    model = context.routes.current.id
    dialect = context.settings.models[model].dialect if model in context.settings.models else ""
    tools = context.routes.current.capabilities.tools or bool(dialect)
    if context.memory.variants.choose_variant(model, window=context.window, tools=tools) and not tools:
        context.emit(Notice(level="info", message=CALLS_IN_TEXT.format(shorten_model(model))))


def _build_native_setup(context: TurnContext, setup: PromptSetup, *, short: bool) -> dict[str, object]:
    edits = choose_edit_format(context.routes.current.id, context.settings)
    has_search = context.routes.current.capabilities.tool_search and not short
    names = (*context.tools.listed, SearchTools.name) if has_search else None
    fresh = (
        build_native_prefix(context.tools, setup.rules, edits, short=True)
        if short
        else replace(setup.prefix, tools=context.tools.build_specs(load_tool_text, edits, names))
    )
    suffix = "-short" if short else "-search" if has_search else ""
    name = f"prefix-{edits}{suffix}.json"
    prefix, is_changed = load_or_save_prefix(context.directory, name, fresh)
    return {"prefix": prefix, "size": measure_prefix(prefix.system, prefix.tools), "is_changed": is_changed}


def build_native_prefix(tools: Toolset, rules: Sequence[str], edits: EditFormat, *, short: bool = False) -> Prefix:
    """Build system prompt and tools for a model with function calls."""
    load_text, names = (load_short_tool_text, tools.essential) if short else (load_tool_text, tools.listed)
    system = render_system_prompt(rules, is_short=short)
    return Prefix(system=system, tools=tools.build_specs(load_text, edits, names))


def _build_text_setup(context: TurnContext, setup: PromptSetup, *, short: bool) -> dict[str, object]:
    name = context.dialect
    file = f"prefix-{name}.json"
    dialect: Dialect
    if name == "command":
        dialect = command = _build_command_dialect(context)
        rules = render("dialects/workspace_rules", rules=setup.rules)
        system = f"{command.render_system_prompt()}\n\n{mask_secrets(rules)}".strip()
    else:
        dialect = TagDialect(allows_background=context.terminal.is_contained)
        system = render_tags_prompt(context.tools, setup.rules, short=short)
        file = f"prefix-{name}-short.json" if short else file
    prefix, is_changed = load_or_save_prefix(context.directory, file, Prefix(system=system, tools=()))
    return {"prefix": prefix, "size": measure_prefix(prefix.system, ()), "dialect": dialect, "is_changed": is_changed}


def render_tags_prompt(tools: Toolset, rules: Sequence[str], *, short: bool = False) -> str:
    """Render the system prompt of the `tags` dialect, which explains its tags for tools."""
    name = "dialects/tags_short" if short else "dialects/tags"
    return mask_secrets(render(name, rules=rules, tools=_list_tools(tools, short=short)))


def _build_command_dialect(context: TurnContext) -> CommandDialect:
    from core.prompts.command_templates import load_command_templates

    file = context.settings.dialects.command
    texts = load_command_templates(get_config_dir() / Path(file).expanduser() if file else None)
    facts = {
        "system": platform.system(),
        "release": platform.release(),
        "version": platform.version(),
        "machine": platform.machine(),
        "workspace": str(context.terminal.host.workspace.root),
        "model": context.routes.current.id,
        "shell": Path(find_shell()).name,
        "time_limit": texts.timeout,
    }
    context.memory.template_limits = TurnLimits(max_steps=texts.step_limit, max_cost=texts.cost_limit)
    return CommandDialect(
        texts,
        facts,
        time_limit=texts.timeout,
        counts=partial(_count_usage, context.memory),
        has_powershell=shutil.which("pwsh") is not None,
    )


def _count_usage(memory: ModelMemory) -> dict[str, object]:
    """Return the usage of the running turn for a template. It is read late, since the dialect outlives a turn."""
    return {"n_model_calls": memory.budget.steps, "model_cost": memory.budget.usage.cost or 0.0}


def _list_tools(tools: Toolset, *, short: bool) -> list[dict[str, str]]:
    text = load_short_tool_text if short else load_tool_text
    return [
        {"name": name, "text": tools.describe(name, text(name))}
        for name in (tools.essential if short else tools.listed)
        if tools[name].access not in {Access.EXEC, Access.JOB} and name not in _TOOLS_WITH_TAGS
    ]


async def build_request(context: TurnContext, setup: PromptSetup, messages: Sequence[Message]) -> ModelRequest:
    """Build the request of a history to the current model."""
    route, blobs = context.routes.current, context.terminal.host.shadow.blobs
    sender = AttachmentSender(blobs, context.memory.stand_ins, context.emit)
    sendable_messages = await sender.replace_unsendable(messages, route)
    return ModelRequest(
        model=route.model,
        system=setup.prefix.system,
        tools=setup.prefix.tools,
        messages=setup.dialect.convert_history(sendable_messages),
        max_tokens=_limit_answer(context),
        session=context.id,
        effort=route.effort,
        tier=route.tier,
        cache=choose_cache(context),
        blobs=blobs.get,
        private=context.is_private,
        answer=_choose_answer_form(context),
    )


def _choose_answer_form(context: TurnContext) -> AnswerForm | None:
    """Return the form of the answer; None also if calls are written as text, which it would forbid."""
    answer = context.answer
    return answer if answer is None or answer.is_alone or context.dialect == "native" else None


def _limit_answer(context: TurnContext) -> int:
    """Return the most tokens of an answer, 0 = the server has a limit of its own. A model of the user's own server
    would run on until its window is full."""
    route, models = context.routes.current, context.settings.models
    chosen = models[route.id].max_answer if route.id in models else 0
    if chosen or not route.capabilities.unbounded:
        return chosen
    return min(max(context.window // ANSWER_SHARE, MIN_ANSWER), MAX_ANSWER) if context.window else UNKNOWN_ANSWER


def choose_cache(context: TurnContext) -> CacheChoice:
    """Return what the API's cache should keep for long: the prefix while a user is there, everything once the user has
    paused for longer than the cache usually lives, but not longer than it can."""
    terms, now = context.routes.current.capabilities.cache, now_ms()
    if not terms.long or context.is_private or not context.user.is_interactive:
        return ""
    pauses = _list_pauses(context.state.turns, now)[-MAX_PAUSES:]
    return "all" if any(terms.short < seconds <= terms.long for seconds in pauses) else "prefix"


def is_cache_cold(context: TurnContext) -> bool:
    """Return True if the API's cache has certainly lost the history: it was last read longer ago than the cache
    lives."""
    terms, turns = context.routes.current.capabilities.cache, context.state.turns
    ended = [turn.started + turn.duration_ms for turn in turns if turn.reason]
    read_at = max(context.memory.cached_at, ended[-1] if ended else 0)
    lifetime = terms.long if choose_cache(context) == "all" else terms.short
    return bool(lifetime and read_at) and now_ms() - read_at > lifetime * 1000


def recall_count(context: TurnContext, size: int) -> None:
    """Take the provider's count of a resumed conversation from its log, where it can be that of these messages.
    `size`: of the prefix, in bytes."""
    meter, state = context.memory.meter, context.state
    if meter.is_calibrated or not state.context_used:
        return
    answers = [number for number, message in enumerate(state.messages, 1) if isinstance(message, AssistantMessage)]
    counted_messages = state.messages[: answers[-1]] if answers else []
    bytes_per_token = (size + measure_messages(counted_messages)) / state.context_used
    if counted_messages and LEAST_DENSE <= bytes_per_token <= MOST_DENSE:
        meter.calibrate(size, counted_messages, state.context_used)


def _list_pauses(turns: Sequence[TurnState], now: int) -> list[float]:
    """Return the seconds between the turns, in order; what runs has not ended."""
    ends = [turn.started + turn.duration_ms if turn.reason else now for turn in turns]
    return [(turn.started - end) / 1000 for end, turn in zip(ends, turns[1:], strict=False)]
