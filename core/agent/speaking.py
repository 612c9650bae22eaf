"""A session's dialect: which one its model speaks, the prompt that goes with it, and what is told of a call."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from core.agent.documents import Documents
from core.agent.gate import Call
from core.agent.jobs import Job
from core.agent.limits import prefix_size
from core.agent.prefix import Prefix, Prepared, kept_or_made, shown
from core.agent.session import SessionContext
from core.agent.spill import clip
from core.agent.tags import as_data
from core.config import EditFormat
from core.dialects.base import Dialect, Result
from core.dialects.command import CommandDialect
from core.dialects.native import NativeDialect
from core.dialects.tags import TagDialect
from core.modes import Access
from core.prompts import render, tool_text
from core.protocol.documents import Text
from core.rules import Rule
from core.secrets import masked
from core.tools.base import TerminalDetail
from core.tools.offers import edit_format
from core.user_dirs import config_dir

# What the tags dialect has tags of its own for.
_HAS_TAGS = frozenset({"search_replace", "edit_blocks", "call_tool"})
_TERMINAL = frozenset({"run_terminal_cmd", "read_terminal", "write_terminal", "stop_terminal"})


async def in_dialect(session: SessionContext, made: Prepared) -> Prepared:
    """What was prepared, for the dialect of the session's model. Raises `ConfigError` for its texts."""
    name = session.dialect
    if name == "native":
        return await _with_edits(session, made)
    await session.terminal.find()
    key = f"{name} {session.route.id} {session.settings.dialects.command}"
    if key not in session.spoken:
        session.spoken[key] = await asyncio.to_thread(_spoken, session, made)
    return replace(made, **session.spoken[key])


async def _with_edits(session: SessionContext, made: Prepared) -> Prepared:
    """The prefix with the edit tool that the session's model is best at: for one model of a session always the same."""
    edits = edit_format(session.route.id, session.settings)
    if edits == "search_replace":
        return made
    key = f"native {edits}"
    if key not in session.spoken:
        session.spoken[key] = await asyncio.to_thread(_offering, session, made, edits)
    return replace(made, **session.spoken[key])


def _offering(session: SessionContext, made: Prepared, edits: EditFormat) -> dict[str, object]:
    from core.tools.registry import tool_specs

    fresh = Prefix(system=made.prefix.system, tools=tool_specs(tool_text, edits))
    prefix = kept_or_made(session.directory, f"prefix-{edits}.json", fresh)
    return {"prefix": prefix, "size": prefix_size(prefix.system, prefix.tools)}


def _spoken(session: SessionContext, made: Prepared) -> dict[str, object]:
    """Prefix, size and dialect. The system prompt says how to ask, so there is no tool list."""
    name = session.dialect
    dialect: Dialect
    if name == "command":
        dialect = command = _command_dialect(session)
        rules = render("dialects/workspace_rules", rules=shown(made.rules.always))
        system = f"{command.system()}\n\n{masked(rules)}".strip()
    else:
        dialect = TagDialect(goes_on=session.contained)
        system = tags_prompt(made.rules.always)
    prefix = kept_or_made(session.directory, f"prefix-{name}.json", Prefix(system=system, tools=()))
    return {"prefix": prefix, "size": prefix_size(prefix.system, ()), "dialect": dialect}


def tags_prompt(rules: Sequence[Rule]) -> str:
    """The system prompt of the `tags` dialect, which says how to ask for work."""
    return masked(render("dialects/tags", rules=shown(rules), tools=_tools()))


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
    return CommandDialect(texts, facts, time_limit=texts.timeout)


def _tools() -> list[dict[str, str]]:
    """The tools that are called by name, as the prompt lists them."""
    from core.tools.registry import LISTED, TOOLS, described

    return [
        {"name": name, "text": described(name, tool_text(name))}
        for name in LISTED
        if TOOLS[name].access not in {Access.EXEC, Access.JOB} and name not in _HAS_TAGS
    ]


def teller(dialect: Dialect) -> Callable[[Call], str]:
    """What the model is told of a call that is over. In a user message, foreign text must not look like ours."""
    if isinstance(dialect, NativeDialect):
        return lambda call: call.text

    def told(call: Call) -> str:
        text = f"{as_data(call.aside())}{dialect.result(result_of(call))}"
        return clip(call.session.directory, call.request.id, text)[0]

    return told


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
