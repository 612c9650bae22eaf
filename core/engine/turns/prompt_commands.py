"""`/name` in a prompt: a skill or a command file, rendered to the text that the model is sent instead.

Commands inside it run only when the prompt is sent, and only in a trusted project.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from msgspec import Struct

from core.agent.context.skills import fill_commands, render_skill
from core.engine.session.session import Session
from core.engine.turns.server_prompts import PREFIX, expand_server_prompt
from core.errors import CommandRejected, ToolFailed
from core.extensions.commands import CommandFile, CommandSet, find_prompt_command, load_commands
from core.extensions.plugins import find_extension_folders
from core.extensions.rendering import PromptArguments, PromptPart, render_parts
from core.extensions.skills import Skill, SkillSet, load_skills
from core.patterns import compile_lazily
from core.permissions.trusted_files import TrustCheck
from core.protocol.events import SkillActivated
from core.workspace import Workspace

_CALL: Final = compile_lazily(r"/([A-Za-z0-9_][\w.:-]*)(?:\s+(.*))?", re.DOTALL)


class PromptCommands(Struct, frozen=True, kw_only=True):
    """The skills and command files that `/name` can call."""

    skills: SkillSet
    commands: CommandSet

    def find(self, name: str) -> Skill | CommandFile | None:
        return find_prompt_command(name, self.skills.skills, self.commands.commands)


class ExpandedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt as the model is sent it. `words`: the part in which mentions count, without the output of commands.

    `opened`: the skill that it opens.
    """

    text: str
    words: str
    opened: SkillActivated | None = None


def load_prompt_commands(workspace: Workspace, is_trusted: TrustCheck | None) -> PromptCommands:
    """Load the skills and commands of a workspace, as `find_extension_folders` finds them. Reads many files."""
    folders = find_extension_folders(workspace, is_trusted).folders
    return PromptCommands(skills=load_skills(folders), commands=load_commands(folders))


def parse_call(text: str) -> tuple[str, str] | None:
    """Return the name and the arguments of a prompt that calls a command; None: it is an ordinary prompt, as is one
    that begins with a space."""
    match = _CALL.fullmatch(text.rstrip())
    return (match[1], (match[2] or "").strip()) if match else None


def calls_server(text: str) -> bool:
    """True if a prompt calls a prompt of an MCP server."""
    call = parse_call(text) if text.startswith(f"/{PREFIX}") else None
    return call is not None


async def load_for_session(session: Session) -> PromptCommands:
    """Load the skills and commands that can be called in a session now."""
    trust = session.services.trust
    check = trust.is_readable if trust.trusted else None
    return await asyncio.to_thread(load_prompt_commands, session.workspace, check)


async def find_called(session: Session, text: str) -> tuple[Skill | CommandFile, str] | None:
    """Find the skill or command that a prompt calls, with its arguments; None: it is an ordinary prompt."""
    if (call := parse_call(text)) is None:
        return None
    command = (await load_for_session(session)).find(call[0])
    return None if command is None else (command, call[1])


async def expand_prompt(session: Session, text: str) -> ExpandedPrompt | None:
    """Expand a prompt that calls a skill or a command; None: it is an ordinary prompt. Raises `CommandRejected`."""
    if calls_server(text):
        name, words = parse_call(text) or ("", "")
        return ExpandedPrompt(text=await expand_server_prompt(session, name, words), words=words)
    if (call := await find_called(session, text)) is None:
        return None
    command, arguments = call
    permissions = session.call_permissions
    permissions.is_trusted = session.services.trust.trusted
    try:
        if isinstance(command, Skill):
            activation = await render_skill(permissions, command, arguments, by_user=True)
            return ExpandedPrompt(text=activation.text, words=arguments, opened=activation)
        parts = render_command_parts(command, arguments, session)
        words = "".join(part.text for part in parts if not part.is_command)
        return ExpandedPrompt(text=await fill_commands(permissions, parts), words=words)
    except ToolFailed as problem:
        message = f"/{command.name} was not sent. {problem.message}"
        raise CommandRejected(message, hint=f"It is {command.path}.", code="command_failed") from problem


def render_command_parts(
    command: CommandFile, arguments: str, session: Session | None = None
) -> tuple[PromptPart, ...]:
    """Render the parts of a command without running the shell commands in it. Without a session, variables stay."""
    variables = {}
    if session is not None:
        variables = {"CLAUDE_PROJECT_DIR": str(session.workspace.root), "CLAUDE_SESSION_ID": session.id}
    prompt_arguments = PromptArguments(
        text=arguments,
        names=command.arguments,
        variables=variables,
        dialect=command.dialect,
        takes_numbers=True,
    )
    return render_parts(command.body, prompt_arguments)
