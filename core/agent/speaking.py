"""A session's dialect: which one its model speaks, the prompt that goes with it, and what is told of a call."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from core.agent.compaction import window_of
from core.agent.documents import Documents
from core.agent.gate import Call
from core.agent.jobs import Job
from core.agent.limits import prefix_size
from core.agent.prefix import Prefix, Prepared, kept_or_made, shown, system_prompt
from core.agent.session import SessionContext
from core.agent.spill import clip
from core.agent.tags import as_data
from core.config import EditFormat
from core.dialects.base import Dialect, Result
from core.dialects.command import CommandDialect
from core.dialects.edit_reader import Candidate
from core.dialects.native import NativeDialect
from core.dialects.tags import TagDialect
from core.modes import Access
from core.prompts import render, short_tool_text, tool_text
from core.protocol.documents import Text
from core.protocol.events import Notice
from core.protocol.messages import AssistantMessage
from core.rules import Rule
from core.secrets import masked
from core.tools.base import TerminalDetail
from core.tools.offers import edit_format
from core.user_dirs import config_dir

IN_TEXT = "{} takes no function calls, so it writes what it wants done into its text (tags)."
# What the tags dialect has tags of its own for.
_HAS_TAGS = frozenset({"search_replace", "edit_blocks", "call_tool"})
_TERMINAL = frozenset({"run_terminal_cmd", "read_terminal", "write_terminal", "stop_terminal"})


async def in_dialect(session: SessionContext, made: Prepared) -> Prepared:
    """What was prepared, for the session's model: its dialect, its edit tool, and short where its window is small. For
    one model of a session it is always the same. Raises `ConfigError` for the texts of its dialect."""
    _settle(session)
    name, short = session.dialect, session.variants.is_short(session.route.id)
    edits = edit_format(session.route.id, session.settings)
    if name == "native":
        made = replace(made, dialect=NativeDialect(partial(_is_meant, session)))
        if edits == "search_replace" and not short:
            return made
    if name != "native":
        await session.terminal.find()
    key = f"{name} {edits} {session.route.id} {session.settings.dialects.command}"
    if key not in session.spoken:
        speak = _native if name == "native" else _spoken
        session.spoken[key] = await asyncio.to_thread(speak, session, made, short=short)
    return replace(made, **session.spoken[key])


def _is_meant(session: SessionContext, candidate: Candidate) -> bool:
    from core.agent.text_edits import is_meant  # seldom needed, and it brings the edit formats with it

    return is_meant(session, candidate)


def _settle(session: SessionContext) -> None:
    """Once for each model of the session. What the user says of a model's dialect counts more than what is known."""
    model = session.route.id
    said = session.settings.models[model].dialect if model in session.settings.models else ""
    tools = session.route.capabilities.tools or bool(said)
    if session.variants.settle(model, window=window_of(session), tools=tools) and not tools:
        session.emit(Notice(level="info", message=IN_TEXT.format(model)))


def _native(session: SessionContext, made: Prepared, *, short: bool) -> dict[str, object]:
    edits = edit_format(session.route.id, session.settings)
    fresh = native_prefix(made.rules.always, edits, short=True) if short else _with(made.prefix, edits)
    name = f"prefix-{edits}-short.json" if short else f"prefix-{edits}.json"
    prefix, changed = kept_or_made(session.directory, name, fresh)
    return {"prefix": prefix, "size": prefix_size(prefix.system, prefix.tools), "changed": changed}


def _with(prefix: Prefix, edits: EditFormat) -> Prefix:
    from core.tools.registry import tool_specs

    return replace(prefix, tools=tool_specs(tool_text, edits))


def native_prefix(rules: Sequence[Rule], edits: EditFormat, *, short: bool = False) -> Prefix:
    """System prompt and tools of a model that calls functions."""
    from core.tools.registry import LISTED, SHORTLIST, tool_specs

    tools = tool_specs(short_tool_text if short else tool_text, edits, SHORTLIST if short else LISTED)
    return Prefix(system=system_prompt(rules, short=short), tools=tools)


def _spoken(session: SessionContext, made: Prepared, *, short: bool) -> dict[str, object]:
    """Prefix, size and dialect. The system prompt says how to ask, so there is no tool list."""
    name = session.dialect
    file = f"prefix-{name}.json"
    dialect: Dialect
    if name == "command":
        dialect = command = _command_dialect(session)
        rules = render("dialects/workspace_rules", rules=shown(made.rules.always))
        system = f"{command.system()}\n\n{masked(rules)}".strip()
    else:
        dialect = TagDialect(goes_on=session.contained)
        system = tags_prompt(made.rules.always, short=short)
        file = f"prefix-{name}-short.json" if short else file
    prefix, changed = kept_or_made(session.directory, file, Prefix(system=system, tools=()))
    return {"prefix": prefix, "size": prefix_size(prefix.system, ()), "dialect": dialect, "changed": changed}


def tags_prompt(rules: Sequence[Rule], *, short: bool = False) -> str:
    """The system prompt of the `tags` dialect, which says how to ask for work."""
    name = "dialects/tags_short" if short else "dialects/tags"
    return masked(render(name, rules=shown(rules), tools=_tools(short=short)))


def _command_dialect(session: SessionContext) -> CommandDialect:
    from core.prompts.command_texts import command_texts

    file = session.settings.dialects.command
    texts = command_texts(config_dir() / Path(file).expanduser() if file else None)
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
    return CommandDialect(texts, facts, time_limit=texts.timeout, counts=lambda: _counts(session))


def _counts(session: SessionContext) -> dict[str, object]:
    """What the turn has used so far, as a template may say it."""
    return {"n_model_calls": session.spent.steps, "model_cost": session.spent.usage.cost or 0.0}


def _tools(*, short: bool) -> list[dict[str, str]]:
    """The tools that are called by name, as the prompt lists them."""
    from core.tools.registry import LISTED, SHORTLIST, TOOLS, described

    text = short_tool_text if short else tool_text
    return [
        {"name": name, "text": described(name, text(name))}
        for name in (SHORTLIST if short else LISTED)
        if TOOLS[name].access not in {Access.EXEC, Access.JOB} and name not in _HAS_TAGS
    ]


def teller(dialect: Dialect) -> Callable[[Call], str]:
    """What the model is told of a call that is over. In a user message, foreign text must not look like ours."""
    if isinstance(dialect, NativeDialect):
        return lambda call: as_data(call.text) if _is_in_text(call) else call.text

    def told(call: Call) -> str:
        text = f"{as_data(call.aside())}{dialect.result(result_of(call))}"
        return clip(call.session.directory, call.request.id, text)[0]

    return told


def _is_in_text(call: Call) -> bool:
    """Whether a call of the latest answer stood in its text, so that its result goes back among the user's words."""
    answers = (each for each in reversed(call.session.state.messages) if isinstance(each, AssistantMessage))
    latest = next(answers, None)
    return latest is not None and call.request.id in latest.in_text


def result_of(call: Call) -> Result:
    detail, content = call.outcome.detail, as_data(call.text)
    if isinstance(detail, TerminalDetail):
        return Result(
            content=content,
            command=detail.command,
            exit_code=detail.exit_code,
            output=as_data(detail.output),
            timed_out=detail.timed_out,
            running=_job_of(call) is not None,
        )
    job = _job_of(call)
    if job is None:
        return Result(content=content)
    code = job.result.exit_code if job.result else None
    return Result(content=content, command=job.command, exit_code=code, output=content, running=job.alive)


def _job_of(call: Call) -> Job | None:
    """The job that a call of the terminal is about."""
    if call.name not in _TERMINAL:
        return None
    named = getattr(call.tool, "job", "")
    jobs = call.session.terminal.jobs
    if named:
        return jobs.job(named) if call.status == "completed" else None
    return next((job for job in jobs.alive if job.execution.order.origin.call == call.request.id), None)


def follow_jobs(session: SessionContext, calls: Sequence[Call]) -> None:
    """After a step: which command goes on in the model's terminal. It stays until the model knows its end."""
    for call in calls:
        job = _job_of(call)
        if job is None:
            continue
        if job.alive:
            session.job_in_front = job.id
        elif session.job_in_front == job.id:
            session.job_in_front = ""


def hand_in(documents: Documents, dialect: Dialect, calls: list[Call]) -> bool:
    """After a step: whether one of its calls ended the turn; what it handed in is shown."""
    if isinstance(dialect, TagDialect) and calls:
        follow_jobs(calls[0].session, calls)
    last = next((result for result in map(result_of, calls) if dialect.ends(result)), None)
    if last is None:
        return False
    if final := dialect.final(last):
        opened = documents.open("text")
        documents.finish(Text(id=opened.id, sequence=opened.sequence, content=final))
    return True
