"""Queries about skills, commands and MCP servers: all that there are, each with why it counts or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from core.agent.skills.offer import SkillTeller
from core.engine.prompt_commands import calls_server, find_called, load_prompt_commands, render_command_parts
from core.engine.queries.source import QuerySource
from core.engine.servers.prompts import list_prompt_commands
from core.errors import CommandRejected
from core.extensions.catalogue import SkillChoice, SkillOccasion, choose_skills
from core.extensions.commands import CommandFile
from core.extensions.places import SkippedFile
from core.extensions.plugins import find_extension_places
from core.extensions.rendering import PromptArguments, render_parts
from core.extensions.skills import Skill, SkillSet, load_skills
from core.extensions.snippets import load_snippets
from core.permissions.trusted_files import TrustCheck
from core.protocol import queries as q
from core.workspace import Workspace


def _get_check(source: QuerySource) -> TrustCheck | None:
    trust = source.services.trust
    return trust.is_readable if trust.trusted else None


async def answer_commands(source: QuerySource, query: q.CommandsQuery) -> q.CommandsAnswer:
    """Return all that a prompt can call by name."""
    found = await asyncio.to_thread(list_commands, source.services.workspace, _get_check(source))
    if (session := source.sessions.get(query.session)) is not None:
        prompts = await list_prompt_commands(session.server_access.servers)
        found = replace(found, commands=(*found.commands, *prompts))
    return found


def list_commands(workspace: Workspace, check: TrustCheck | None) -> q.CommandsAnswer:
    """List all that a prompt can call by name in a workspace. Reads many files."""
    found = load_prompt_commands(workspace, check)
    skills = [each for each in found.skills.skills if each.is_user_invocable]
    names = {each.name for each in skills}
    rows: list[Skill | CommandFile] = [*skills]
    rows += [each for each in found.commands.commands if each.name not in names]
    hidden = [each for each in found.commands.commands if each.name in names]
    skipped = [q.SkippedExtension(path=each.path, reason=f"the skill {each.name!r} counts") for each in hidden]
    return q.CommandsAnswer(
        commands=tuple(map(_to_row, rows)),
        skipped=(*_list_skipped(found.commands.skipped), *skipped),
        is_trusted=check is not None,
    )


def _to_row(found: Skill | CommandFile) -> q.PromptCommand:
    return q.PromptCommand(
        name=found.name,
        description=found.description,
        kind="skill" if isinstance(found, Skill) else "command",
        scope=found.scope,
        source=found.source,
        path=found.path,
        hint=found.argument_hint,
        problems=found.problems,
    )


def _list_skipped(skipped: Iterable[SkippedFile]) -> tuple[q.SkippedExtension, ...]:
    return tuple(q.SkippedExtension(path=each.path, reason=each.reason) for each in skipped)


async def answer_command_preview(source: QuerySource, query: q.CommandPreviewQuery) -> q.CommandPreviewAnswer:
    """Return the prompt that a call would send. Raises `CommandRejected` where it calls nothing."""
    if calls_server(query.text):
        raise CommandRejected("a prompt of an MCP server is known when it is sent.", code="command_unknown")
    called = await find_called(source.require_session(query.session), query.text)
    if called is None:
        told = "Name a command of yours, or a skill: /name and its arguments."
        raise CommandRejected(f"{query.text[:80]!r} calls nothing.", hint=told, code="command_unknown")
    return preview_command(*called)


def preview_command(found: Skill | CommandFile, arguments: str) -> q.CommandPreviewAnswer:
    """Render what a skill or a command would send. Nothing runs, and what it would run is named."""
    if isinstance(found, Skill):
        given = PromptArguments(text=arguments, names=found.arguments, variables=found.list_variables())
        parts = render_parts(found.body, given)
    else:
        parts = render_command_parts(found, arguments)
    text = "".join(f"!`{each.text}`" if each.is_command else each.text for each in parts)
    runs = tuple(each.text for each in parts if each.is_command)
    return q.CommandPreviewAnswer(path=found.path, text=text, runs=runs)


async def answer_snippets(source: QuerySource, _: q.SnippetsQuery) -> q.SnippetsAnswer:
    """Return all texts that can be put into a prompt by name."""
    return await asyncio.to_thread(list_snippets, source.services.workspace, _get_check(source))


def list_snippets(workspace: Workspace, check: TrustCheck | None) -> q.SnippetsAnswer:
    """List the snippets of a workspace. Reads many files."""
    found = load_snippets(find_extension_places(workspace, check).folders)
    rows = tuple(
        q.Snippet(
            name=each.name,
            description=each.description,
            text=each.text,
            scope=each.scope,
            path=each.path,
            problems=each.problems,
        )
        for each in found.snippets
    )
    return q.SnippetsAnswer(snippets=rows, skipped=_list_skipped(found.skipped), is_trusted=check is not None)


async def answer_skills(source: QuerySource, query: q.SkillsQuery) -> q.SkillsAnswer:
    """Return every skill. With an open session: as its model is told of them."""
    session, check = source.sessions.get(query.session), _get_check(source)
    if session is None or session.context is None:
        return await asyncio.to_thread(list_skills, source.services.workspace, check)
    teller = SkillTeller(session.context)
    choices = await teller.choose()
    return _build_answer(choices, teller.skills or SkillSet(), set(session.state.skills), check)


async def answer_servers(source: QuerySource, query: q.ServersQuery) -> q.ServersAnswer:
    """Return the MCP servers of a session, as they are configured now and as they go. Raises `StateError`."""
    return await source.require_session(query.session).server_access.servers.load_rows()


def list_skills(workspace: Workspace, check: TrustCheck | None, paths: tuple[str, ...] = ()) -> q.SkillsAnswer:
    """List every skill as a session that began now would be told of it, for files at hand. Reads many files."""
    skills = load_skills(find_extension_places(workspace, check).folders)
    return _build_answer(choose_skills(skills.skills, SkillOccasion(paths=paths)), skills, set(), check)


def _build_answer(
    choices: Iterable[SkillChoice], skills: SkillSet, opened: set[str], check: TrustCheck | None
) -> q.SkillsAnswer:
    rows = tuple(_to_loaded(each, is_open=each.skill.name in opened) for each in choices)
    return q.SkillsAnswer(skills=rows, skipped=_list_skipped(skills.skipped), is_trusted=check is not None)


def _to_loaded(choice: SkillChoice, *, is_open: bool) -> q.LoadedSkill:
    skill = choice.skill
    asked = f"it asks for {', '.join(skill.allowed_tools)}, which gives no right" if skill.allowed_tools else ""
    return q.LoadedSkill(
        name=skill.name,
        description=skill.description,
        path=skill.path,
        scope=skill.scope,
        source=skill.source,
        state="open" if is_open else "offered" if choice.is_offered else "named" if choice.is_named else "hidden",
        reason="its text was opened in this session" if is_open else choice.reason,
        note="; ".join(filter(None, (*skill.problems, asked))),
    )
