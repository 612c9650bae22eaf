"""The dialect of a session's model: which one it speaks, the prompt that goes with it, and how results are worded."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from core.agent.answer.documents import TurnDocuments
from core.agent.context.compaction import get_window
from core.agent.context.prefix import Prefix, PromptSetup, escape_rules, load_or_save_prefix, render_system_prompt
from core.agent.context.prompt_tags import escape_tags
from core.agent.gate.tool_calls import GatedCall
from core.agent.turn.limits import measure_prefix
from core.agent.turn.turn_context import TurnContext
from core.config import EditFormat
from core.config.project_rules import ProjectRule
from core.dialects.command import CommandDialect
from core.dialects.dialect import CallResult, Dialect
from core.dialects.native import NativeDialect
from core.dialects.tags import TagDialect
from core.dialects.written_edits import WrittenEdit
from core.modes import Access
from core.prompts import load_short_tool_text, load_tool_text, render
from core.protocol.documents import TextDocument
from core.protocol.events import Notice
from core.protocol.messages import AssistantMessage
from core.secrets import mask_secrets
from core.shell.jobs import BackgroundJob
from core.shell.spill import clip_text
from core.tools.base import TerminalDetail
from core.tools.edit_format_choice import choose_edit_format
from core.user_dirs import get_config_dir

CALLS_IN_TEXT = "{} takes no function calls, so it writes what it wants done into its text (tags)."
# What the tags dialect has tags of its own for.
_TOOLS_WITH_TAGS = frozenset({"search_replace", "edit_blocks", "call_tool"})
_TERMINAL_TOOLS = frozenset({"run_terminal_cmd", "read_terminal", "write_terminal", "stop_terminal"})


async def apply_dialect(session: TurnContext, setup: PromptSetup) -> PromptSetup:
    """Return the setup for the session's model: its dialect, its edit tool, and short prompts for a small window.

    For one model of a session it is always the same. Raises `ConfigError` for the texts of its dialect.
    """
    _choose_variant(session)
    name, short = session.dialect, session.variants.is_short(session.route.id)
    edits = choose_edit_format(session.route.id, session.settings)
    if name == "native":
        setup = replace(setup, dialect=NativeDialect(partial(_is_meant, session)))
        if edits == "search_replace" and not short:
            return setup
    if name != "native":
        await session.terminal.find_box()
    key = f"{name} {edits} {session.route.id} {session.settings.dialects.command}"
    if key not in session.dialect_setups:
        speak = _build_native_setup if name == "native" else _build_text_setup
        session.dialect_setups[key] = await asyncio.to_thread(speak, session, setup, short=short)
    return replace(setup, **session.dialect_setups[key])


def _is_meant(session: TurnContext, candidate: WrittenEdit) -> bool:
    from core.agent.answer.text_edits import is_meant  # seldom needed, and it brings the edit formats with it

    return is_meant(session, candidate)


def _choose_variant(session: TurnContext) -> None:
    """Choose the prompt variant, once for each model. A dialect that the user configured wins over what is known."""
    model = session.route.id
    said = session.settings.models[model].dialect if model in session.settings.models else ""
    tools = session.route.capabilities.tools or bool(said)
    if session.variants.choose_variant(model, window=get_window(session), tools=tools) and not tools:
        session.emit(Notice(level="info", message=CALLS_IN_TEXT.format(model)))


def _build_native_setup(session: TurnContext, setup: PromptSetup, *, short: bool) -> dict[str, object]:
    edits = choose_edit_format(session.route.id, session.settings)
    fresh = build_native_prefix(setup.rules.always, edits, short=True) if short else _replace_tools(setup.prefix, edits)
    name = f"prefix-{edits}-short.json" if short else f"prefix-{edits}.json"
    prefix, changed = load_or_save_prefix(session.directory, name, fresh)
    return {"prefix": prefix, "size": measure_prefix(prefix.system, prefix.tools), "is_changed": changed}


def _replace_tools(prefix: Prefix, edits: EditFormat) -> Prefix:
    from core.tools.registry import tool_specs

    return replace(prefix, tools=tool_specs(load_tool_text, edits))


def build_native_prefix(rules: Sequence[ProjectRule], edits: EditFormat, *, short: bool = False) -> Prefix:
    """Build system prompt and tools of a model that calls functions."""
    from core.tools.registry import LISTED, SHORTLIST, tool_specs

    tools = tool_specs(load_short_tool_text if short else load_tool_text, edits, SHORTLIST if short else LISTED)
    return Prefix(system=render_system_prompt(rules, is_short=short), tools=tools)


def _build_text_setup(session: TurnContext, setup: PromptSetup, *, short: bool) -> dict[str, object]:
    """Return prefix, size and dialect. The system prompt says how to ask, so there is no tool list."""
    name = session.dialect
    file = f"prefix-{name}.json"
    dialect: Dialect
    if name == "command":
        dialect = command = _build_command_dialect(session)
        rules = render("dialects/workspace_rules", rules=escape_rules(setup.rules.always))
        system = f"{command.render_system_prompt()}\n\n{mask_secrets(rules)}".strip()
    else:
        dialect = TagDialect(goes_on=session.is_contained)
        system = render_tags_prompt(setup.rules.always, short=short)
        file = f"prefix-{name}-short.json" if short else file
    prefix, changed = load_or_save_prefix(session.directory, file, Prefix(system=system, tools=()))
    return {"prefix": prefix, "size": measure_prefix(prefix.system, ()), "dialect": dialect, "is_changed": changed}


def render_tags_prompt(rules: Sequence[ProjectRule], *, short: bool = False) -> str:
    """Render the system prompt of the `tags` dialect, which says how to ask for work."""
    name = "dialects/tags_short" if short else "dialects/tags"
    return mask_secrets(render(name, rules=escape_rules(rules), tools=_list_tools(short=short)))


def _build_command_dialect(session: TurnContext) -> CommandDialect:
    from core.prompts.command_templates import load_command_templates

    file = session.settings.dialects.command
    texts = load_command_templates(get_config_dir() / Path(file).expanduser() if file else None)
    facts = {
        "system": platform.system(),
        "release": platform.release(),
        "version": platform.version(),
        "machine": platform.machine(),
        "workspace": str(session.workspace.root),
        "model": session.route.id,
        "shell": "bash",
        "time_limit": texts.timeout,
    }
    return CommandDialect(texts, facts, time_limit=texts.timeout, counts=lambda: _count_usage(session))


def _count_usage(session: TurnContext) -> dict[str, object]:
    """Return what the turn has used so far, for a template."""
    return {"n_model_calls": session.budget.steps, "model_cost": session.budget.usage.cost or 0.0}


def _list_tools(*, short: bool) -> list[dict[str, str]]:
    """Return the tools that are called by name, as the prompt lists them."""
    from core.tools.registry import LISTED, SHORTLIST, TOOLS, describe_tool

    text = load_short_tool_text if short else load_tool_text
    return [
        {"name": name, "text": describe_tool(name, text(name))}
        for name in (SHORTLIST if short else LISTED)
        if TOOLS[name].access not in {Access.EXEC, Access.JOB} and name not in _TOOLS_WITH_TAGS
    ]


def build_result_formatter(dialect: Dialect) -> Callable[[GatedCall], str]:
    """Build the function that words a call's result. In a user message, foreign text must not look like ours."""
    if isinstance(dialect, NativeDialect):
        return lambda call: escape_tags(call.text) if _is_in_text(call) else call.text

    def told(call: GatedCall) -> str:
        text = f"{escape_tags(call.format_aside())}{dialect.format_result(build_result(call))}"
        return clip_text(call.session.directory, call.request.id, text)[0]

    return told


def _is_in_text(call: GatedCall) -> bool:
    """True if a call of the latest answer stood in its text, so that its result goes back as a user message."""
    answers = (each for each in reversed(call.session.state.messages) if isinstance(each, AssistantMessage))
    latest = next(answers, None)
    return latest is not None and call.request.id in latest.in_text


def build_result(call: GatedCall) -> CallResult:
    detail, content = call.outcome.detail, escape_tags(call.text)
    if isinstance(detail, TerminalDetail):
        return CallResult(
            content=content,
            command=detail.command,
            exit_code=detail.exit_code,
            output=escape_tags(detail.output),
            is_timed_out=detail.timed_out,
            is_running=_find_job(call) is not None,
        )
    job = _find_job(call)
    if job is None:
        return CallResult(content=content)
    code = job.result.exit_code if job.result else None
    return CallResult(content=content, command=job.command, exit_code=code, output=content, is_running=job.is_alive)


def _find_job(call: GatedCall) -> BackgroundJob | None:
    """Return the job that a call of the terminal is about."""
    if call.name not in _TERMINAL_TOOLS:
        return None
    named = getattr(call.tool, "job", "")
    jobs = call.session.terminal.jobs
    if named:
        return jobs.get_job(named) if call.status == "completed" else None
    return next((job for job in jobs.running_jobs if job.execution.request.origin.call == call.request.id), None)


def track_foreground_job(session: TurnContext, calls: Sequence[GatedCall]) -> None:
    """Track after a step which command goes on in the model's terminal, until the model knows its end."""
    for call in calls:
        job = _find_job(call)
        if job is None:
            continue
        if job.is_alive:
            session.foreground_job = job.id
        elif session.foreground_job == job.id:
            session.foreground_job = ""


def show_hand_in(documents: TurnDocuments, dialect: Dialect, calls: list[GatedCall]) -> bool:
    """Show what a call of the step handed in. True if one ended the turn."""
    if isinstance(dialect, TagDialect) and calls:
        track_foreground_job(calls[0].session, calls)
    last = next((result for result in map(build_result, calls) if dialect.is_final(result)), None)
    if last is None:
        return False
    if final := dialect.extract_submission(last):
        opened = documents.open("text")
        documents.finish(TextDocument(id=opened.id, sequence=opened.sequence, content=final))
    return True
