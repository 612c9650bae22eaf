"""Queries about skills, commands, snippets, MCP servers, hooks, rules and notes, and why each applies or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from core.agent.context.skills import SkillCatalog
from core.config.rules.loading import load_rule_files
from core.config.rules.notes import ProjectNotes
from core.config.rules.roots import iterate_rule_paths
from core.config.rules.rule import RuleOccasion, choose_rules, list_loaded
from core.engine.queries.source import QuerySource
from core.engine.session.hooks import load_trusted_hooks
from core.engine.turns.prompt_commands import calls_server, find_called, load_prompt_commands, render_command_parts
from core.engine.turns.server_prompts import list_prompt_commands
from core.errors import CommandRejected
from core.extensions.commands import CommandFile, load_snippets
from core.extensions.extension_files import SkippedFile
from core.extensions.plugins import find_extension_folders
from core.extensions.rendering import PromptArguments, render_parts
from core.extensions.skills import Skill, SkillChoice, SkillQuery, SkillSet, choose_skills, load_skills
from core.hooks.hook_files import HookTable, explain_missing
from core.hooks.parsing import Hook
from core.permissions.trusted_files import TrustCheck
from core.protocol import queries as q
from core.protocol.events import HookRan, LoadedRule
from core.workspace import Workspace


def _get_check(source: QuerySource) -> TrustCheck | None:
    trust = source.services.trust
    return trust.is_readable if trust.trusted else None


async def answer_commands(source: QuerySource, query: q.CommandsQuery) -> q.CommandsAnswer:
    """Return everything that a prompt can call by name."""
    answer = await asyncio.to_thread(list_commands, source.services.workspace, _get_check(source))
    if (session := source.sessions.get(query.session)) is not None:
        prompts = await list_prompt_commands(session.server_access.servers)
        answer = replace(answer, commands=(*answer.commands, *prompts))
    return answer


def list_commands(workspace: Workspace, check: TrustCheck | None) -> q.CommandsAnswer:
    """List the skills and commands of a workspace that a prompt can call. Reads many files."""
    prompt_commands = load_prompt_commands(workspace, check)
    skills = [skill for skill in prompt_commands.skills.skills if skill.is_user_invocable]
    names = {skill.name for skill in skills}
    rows: list[Skill | CommandFile] = [*skills]
    rows += [command for command in prompt_commands.commands.commands if command.name not in names]
    hidden_commands = [command for command in prompt_commands.commands.commands if command.name in names]
    skipped_extensions = [
        q.SkippedExtension(path=command.path, reason=f"the skill {command.name!r} takes precedence")
        for command in hidden_commands
    ]
    return q.CommandsAnswer(
        commands=tuple(map(_to_row, rows)),
        skipped=(*_list_skipped(prompt_commands.commands.skipped), *skipped_extensions),
        is_trusted=check is not None,
    )


def _to_row(command: Skill | CommandFile) -> q.PromptCommand:
    return q.PromptCommand(
        name=command.name,
        description=command.description,
        kind="skill" if isinstance(command, Skill) else "command",
        scope=command.scope,
        source=command.source,
        path=command.path,
        hint=command.argument_hint,
        problems=command.problems,
    )


def _list_skipped(skipped_files: Iterable[SkippedFile]) -> tuple[q.SkippedExtension, ...]:
    return tuple(
        q.SkippedExtension(path=skipped_file.path, reason=skipped_file.reason) for skipped_file in skipped_files
    )


async def answer_command_preview(source: QuerySource, query: q.CommandPreviewQuery) -> q.CommandPreviewAnswer:
    """Return the prompt that a call would send. Raises `CommandRejected` if the text calls nothing."""
    if calls_server(query.text):
        raise CommandRejected("a prompt of an MCP server is known only when it is sent.", code="command_unknown")
    call = await find_called(source.require_session(query.session), query.text)
    if call is None:
        hint = "Give one of your commands or a skill: /name and its arguments."
        raise CommandRejected(f"{query.text[:80]!r} is not a call.", hint=hint, code="command_unknown")
    return preview_command(*call)


def preview_command(command: Skill | CommandFile, arguments: str) -> q.CommandPreviewAnswer:
    """Render the prompt of a skill or a command without running its shell commands, which are listed."""
    if isinstance(command, Skill):
        prompt_arguments = PromptArguments(text=arguments, names=command.arguments, variables=command.list_variables())
        parts = render_parts(command.body, prompt_arguments)
    else:
        parts = render_command_parts(command, arguments)
    text = "".join(f"!`{part.text}`" if part.is_command else part.text for part in parts)
    runs = tuple(part.text for part in parts if part.is_command)
    return q.CommandPreviewAnswer(path=command.path, text=text, runs=runs)


async def answer_snippets(source: QuerySource, _: q.SnippetsQuery) -> q.SnippetsAnswer:
    """Return all snippets."""
    return await asyncio.to_thread(list_snippets, source.services.workspace, _get_check(source))


def list_snippets(workspace: Workspace, check: TrustCheck | None) -> q.SnippetsAnswer:
    """List the snippets of a workspace. Reads many files."""
    snippet_set = load_snippets(find_extension_folders(workspace, check).folders)
    rows = tuple(
        q.Snippet(
            name=snippet.name,
            description=snippet.description,
            text=snippet.text,
            scope=snippet.scope,
            path=snippet.path,
            problems=snippet.problems,
        )
        for snippet in snippet_set.snippets
    )
    return q.SnippetsAnswer(snippets=rows, skipped=_list_skipped(snippet_set.skipped), is_trusted=check is not None)


async def answer_skills(source: QuerySource, query: q.SkillsQuery) -> q.SkillsAnswer:
    """Return all skills; with an open session, with their state for its model."""
    session, check = source.sessions.get(query.session), _get_check(source)
    if session is None or session.context is None:
        return await asyncio.to_thread(list_skills, source.services.workspace, check)
    teller = SkillCatalog(session.context)
    choices = await teller.choose()
    return _build_answer(choices, teller.skills or SkillSet(), set(session.state.skills), check)


async def answer_servers(source: QuerySource, query: q.ServersQuery) -> q.ServersAnswer:
    """Return the MCP servers of a session with their configuration and state. Raises `StateError`."""
    return await source.require_session(query.session).server_access.servers.load_rows()


def list_skills(workspace: Workspace, check: TrustCheck | None, paths: tuple[str, ...] = ()) -> q.SkillsAnswer:
    """List all skills as for a new session. `paths`: files in its context. Reads many files."""
    skills = load_skills(find_extension_folders(workspace, check).folders)
    return _build_answer(choose_skills(skills.skills, SkillQuery(paths=paths)), skills, set(), check)


def _build_answer(
    choices: Iterable[SkillChoice], skills: SkillSet, open_names: set[str], check: TrustCheck | None
) -> q.SkillsAnswer:
    rows = tuple(_to_loaded(choice, is_open=choice.skill.name in open_names) for choice in choices)
    return q.SkillsAnswer(skills=rows, skipped=_list_skipped(skills.skipped), is_trusted=check is not None)


def _to_loaded(choice: SkillChoice, *, is_open: bool) -> q.LoadedSkill:
    skill = choice.skill
    tools_note = f"it asks for {', '.join(skill.allowed_tools)}, which grants nothing" if skill.allowed_tools else ""
    return q.LoadedSkill(
        name=skill.name,
        description=skill.description,
        path=skill.path,
        scope=skill.scope,
        source=skill.source,
        state="open" if is_open else "offered" if choice.is_offered else "named" if choice.is_named else "hidden",
        reason="it was opened in this session" if is_open else choice.reason,
        note="; ".join(filter(None, (*skill.problems, tools_note))),
    )


async def answer_hooks(source: QuerySource, query: q.HooksQuery) -> q.HooksAnswer:
    """Return all hooks in their files; with an open session, with their last results in it."""
    services = source.services
    trust, session = services.trust, source.sessions.get(query.session)
    table = await asyncio.to_thread(load_trusted_hooks, services.workspace, trust)
    last = session.state.hook_results if session is not None else {}
    rows = await asyncio.to_thread(list_hooks, table, services.workspace.root, last)
    problems = tuple(f"{problem.source}: {problem.message}" for problem in table.problems)
    return q.HooksAnswer(hooks=rows, problems=problems, is_trusted=trust.trusted)


def list_hooks(table: HookTable, root: Path, last: Mapping[str, HookRan]) -> tuple[q.HookRow, ...]:
    """Return the rows of hooks in their order, those that run first. `last`: the last results by hook id."""
    return (
        *(_build_hook_row(hook, "yours" if hook.scope == "user" else "trusted", root, last) for hook in table.hooks),
        *(_build_hook_row(hook, "held", root, last) for hook in table.held),
    )


def _build_hook_row(hook: Hook, trust: q.HookTrust, root: Path, last: Mapping[str, HookRan]) -> q.HookRow:
    return q.HookRow(
        id=hook.id,
        event=hook.event,
        matcher=" ".join(filter(None, (hook.matcher, f"if {hook.condition}" if hook.condition else ""))),
        command=hook.command,
        source=hook.source,
        trust=trust,
        timeout=hook.timeout,
        fails_closed=hook.fails_closed,
        problem=explain_missing(hook, root) or "",
        last=last.get(hook.id),
    )


async def answer_rules(source: QuerySource, query: q.RulesQuery) -> q.RulesAnswer:
    """Return all rules; with an open session, with their state for its model."""
    session, trust = source.sessions.get(query.session), source.services.trust
    if session is None or session.context is None:
        check = trust.is_readable if trust.trusted else None
        rules = await asyncio.to_thread(list_rules, source.services.workspace, check)
        return q.RulesAnswer(rules=rules, is_trusted=trust.trusted)
    from core.agent.context.rule_injection import review_rules
    from core.agent.turn.prompt_setup import load_setup

    context = session.context
    nearby_paths = await asyncio.to_thread(_list_places, source.services.workspace) if trust.trusted else ()
    system = (await load_setup(context)).prefix.system
    review = await review_rules(context, system, context.memory.relevant_paths, nearby_paths=nearby_paths)
    return q.RulesAnswer(rules=review.list_rules(), is_trusted=trust.trusted)


def list_rules(workspace: Workspace, check: TrustCheck | None, paths: tuple[str, ...] = ()) -> tuple[LoadedRule, ...]:
    """List all rules as for a new session. `paths`: files in its context. Reads the tree."""
    nearby_paths = (*_list_places(workspace), *paths) if check is not None else ()
    files = load_rule_files(workspace, check, nearby_paths=nearby_paths)
    return list_loaded(files, choose_rules(files, RuleOccasion(paths)))


def _list_places(workspace: Workspace) -> tuple[str, ...]:
    return tuple(iterate_rule_paths(workspace))


async def answer_memory(source: QuerySource, _: q.MemoryQuery) -> q.MemoryAnswer:
    """Return the notes about the project. Raises `StateError` when their file can't be read."""
    notes = ProjectNotes(source.services.workspace.root)
    return q.MemoryAnswer(notes=await asyncio.to_thread(notes.load))
