"""Skills as a model gets them: offered by name, opened when one fits, pinned through a compaction.

The commands in a skill's text run in the box without a question, so only where the box is strong, the project is
trusted, and no rule of the user forbids it; otherwise the skill is not opened. Their effects are dropped. A skill
grants nothing: calls that its text asks for are decided on like all others.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from core.agent.base.permissions import CallPermissions
from core.agent.base.prompt_tags import escape_attribute, escape_tags
from core.agent.context.offers import Offer, find_last_offer
from core.agent.context.rule_injection import list_relevant_paths
from core.agent.context.turn_context import TurnContext
from core.errors import ToolFailed, ToolInputInvalid
from core.extensions.extension_files import InvalidExtension
from core.extensions.plugins import find_extension_folders
from core.extensions.rendering import PromptArguments, PromptPart, render_parts
from core.extensions.skills import (
    Skill,
    SkillChoice,
    SkillQuery,
    SkillSet,
    choose_skills,
    list_skill_files,
    load_skills,
    read_skill_file,
)
from core.modes import Access
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol.events import SkillActivated
from core.protocol.messages import Message, list_texts
from core.secrets import mask_secrets
from core.text.similarity import find_nearest_names
from core.tools.base import SkillRequest, SkillText

TIME_LIMIT: Final = 30.0  # seconds
MAX_OUTPUT: Final = 20_000  # characters of the output of one command
MAX_COMMANDS: Final = 20
MAX_PINNED: Final = 20_000  # characters of one skill that survive a compaction: about 5,000 tokens
MAX_PINNED_TOGETHER: Final = 100_000
_CUT: Final = "\n[cut: call activate_skill again for the full text]\n</skill>"
_LINE: Final = compile_lazily(r"\A[^\n]*\n")
TAG: Final = "available_skills"
_TOLD_NAME: Final = compile_lazily(r"^- ([\w.:-]+): ", re.MULTILINE)


async def run_injected(permissions: CallPermissions, command: str) -> str:
    """Run a command and return its output. Raises `ToolFailed` if it must not run or fails."""
    terminal = permissions.terminal
    box = await terminal.host.box.find()
    quoted_command = f"`{command[:200]}`"
    if box is None or not box.tier.can_run_unasked:
        raise ToolFailed(
            f"{quoted_command} was not run: commands can't be sandboxed on this machine, so none runs without asking."
        )
    if (reason := permissions.explain_unasked(command, terminal.shell.directory)) is not None:
        raise ToolFailed(f"{quoted_command} was not run: {reason}")
    box_result, output, is_cut = await terminal.run_passing(
        box,
        command,
        lowers=terminal.host.shadow.prepare_lowers(),
        cwd=terminal.shell.directory,
        seconds=TIME_LIMIT,
        max_output=MAX_OUTPUT,
    )
    output += f"\n[cut after {MAX_OUTPUT:,} characters]" if is_cut else ""
    if (end := box_result.end_reason) != "exited" or box_result.exit_code != 0:
        outcome = f"exit code {box_result.exit_code}" if end == "exited" else end
        raise ToolFailed(f"{quoted_command} failed ({outcome}): {output.strip()[-1_000:] or 'no output'}")
    return mask_secrets(output.rstrip("\n"))


async def load_session_skills(permissions: CallPermissions) -> SkillSet:
    """Load the skills of a session from disk."""
    places = partial(find_extension_folders, permissions.terminal.host.workspace, permissions.rule_check)
    return await asyncio.to_thread(lambda: load_skills(places().folders))


async def open_skill(permissions: CallPermissions, request: SkillRequest) -> SkillText:
    """Open a skill for the model, or a file of it. Raises `ToolInputInvalid`, `ToolFailed`, `PathRefused`."""
    skills = await load_session_skills(permissions)
    skill = skills.find(request.name.removeprefix("/"))
    if skill is None or skill.is_manual:
        raise _build_refusal(request.name, skills, skill)
    check_readable(permissions, skill)
    if request.file:
        return await _open_file(permissions, skill, request.file)
    activation = await render_skill(permissions, skill, request.arguments)
    state = permissions.terminal.host.state
    if any(activation.text in text for text in list_texts(state.messages)):
        return SkillText(text=f"{skill.name} is already open: its text is above, unchanged.", path=skill.path)
    permissions.terminal.host.emit(activation)
    return SkillText(text=activation.text, path=skill.path)


def _build_refusal(name: str, skills: SkillSet, skill: Skill | None) -> ToolInputInvalid:
    if skill is not None:
        return ToolInputInvalid(f"Only the user can open {skill.name}.", hint=f"They type /{skill.name}.")
    skill_names = [candidate.name for candidate in skills.skills if not candidate.is_manual]
    nearest_names = find_nearest_names(name[:100], skill_names)
    hint = (
        f"Did you mean {' or '.join(nearest_names)}?"
        if nearest_names
        else f"The skills are: {', '.join(skill_names[:100]) or 'none'}."
    )
    return ToolInputInvalid(f"There is no skill {name[:100]!r}.", hint=hint)


def check_readable(permissions: CallPermissions, skill: Skill) -> None:
    """Raise `PathRefused` if a rule of the user denies a skill of the project to the agent."""
    if skill.scope == "project" and not skill.path.startswith("../"):
        permissions.build_path_guard().check(Access.READ, skill.path)


async def _open_file(permissions: CallPermissions, skill: Skill, name: str) -> SkillText:
    path = f"{skill.path.rpartition('/')[0]}/{name}"
    try:
        data = await asyncio.to_thread(read_skill_file, skill, name)
        text = data.decode("utf-8")
    except InvalidExtension as reason:
        files = await asyncio.to_thread(list_skill_files, skill)
        raise ToolInputInvalid(f"{name[:200]!r}: {reason}.", hint=f"The files are: {', '.join(files)}.") from None
    except UnicodeDecodeError:
        raise ToolFailed(f"{path} is not a text file ({len(data):,} bytes).") from None
    if skill.scope == "project" and not path.startswith("../"):
        permissions.build_path_guard().check(Access.READ, path)
    return SkillText(text=mask_secrets(text), path=path)


async def render_skill(
    permissions: CallPermissions, skill: Skill, arguments: str = "", *, by_user: bool = False
) -> SkillActivated:
    """Render a skill for the model. Raises `ToolFailed` when one of its commands does not run."""
    host = permissions.terminal.host
    prompt_arguments = PromptArguments(
        text=arguments,
        names=skill.arguments,
        takes_numbers=bool(skill.argument_hint),
        variables={
            **skill.list_variables(),
            "CLAUDE_PROJECT_DIR": str(host.workspace.root),
            "CLAUDE_SESSION_ID": host.session_id,
        },
    )
    body = await fill_commands(permissions, render_parts(skill.body, prompt_arguments))
    text = render(
        "skill",
        called=escape_attribute(skill.name),
        path=escape_attribute(skill.path),
        folder=str(skill.directory),
        files=await asyncio.to_thread(list_skill_files, skill),
        body=escape_tags(mask_secrets(body)),
    )
    folder = str(skill.directory) if skill.scope == "user" else ""
    return SkillActivated(name=skill.name, path=skill.path, text=text, folder=folder, by_user=by_user)


async def fill_commands(permissions: CallPermissions, parts: Sequence[PromptPart]) -> str:
    """Run the commands of a text one after the other and put their output in their place. Raises `ToolFailed`."""
    if sum(part.is_command for part in parts) > MAX_COMMANDS:
        raise ToolFailed(f"It has more than {MAX_COMMANDS} commands, so none was run.")
    return "".join([await run_injected(permissions, part.text) if part.is_command else part.text for part in parts])


def render_pinned(skills: Sequence[SkillActivated], before: Sequence[Message], after: Sequence[Message]) -> list[str]:
    """Render the skills that a compaction removed, the latest first, clipped, and together within a bound."""
    room = MAX_PINNED_TOGETHER
    texts = []
    for skill in reversed(skills):
        opening = _LINE.match(skill.text)
        marker = opening.group() if opening else skill.text
        is_lost = any(marker in text for text in list_texts(before)) and not any(
            marker in text for text in list_texts(after)
        )
        text = skill.text if len(skill.text) <= MAX_PINNED else skill.text[: MAX_PINNED - len(_CUT)] + _CUT
        if is_lost and len(text) <= room:
            room -= len(text)
            texts.append(text)
    return texts


class SkillCatalog(Struct):
    """The skills that are offered in one turn. They are loaded once; later ones are offered with the next prompt."""

    context: TurnContext
    skills: SkillSet | None = None

    async def choose(self) -> tuple[SkillChoice, ...]:
        """Decide on every skill for the prompt and the relevant paths."""
        if self.skills is None:
            self.skills = await load_session_skills(self.context.permissions)
        context, state = self.context, self.context.state
        announced_names = _TOLD_NAME.findall(find_last_offer(TAG, state.messages))
        prompt = state.turns[-1].prompt if state.turns else ""
        paths = (*context.memory.relevant_paths, *list_relevant_paths(context))
        return choose_skills(self.skills.skills, SkillQuery(prompt=prompt, paths=paths, offered=announced_names))

    async def describe(self) -> str:
        """Describe the offered skills, "" = none."""
        if self.context.dialect == "command":  # It has no tool to open a skill.
            return ""
        choices = await self.choose()
        descriptions = [_describe_skill(choice.skill) for choice in choices if choice.is_offered]
        if not descriptions:
            return ""
        others = [choice.skill.name for choice in choices if choice.is_named]
        return render("skills", skills=descriptions, others=others, in_text=self.context.dialect == "tags")


def _describe_skill(skill: Skill) -> str:
    description = " ".join(filter(None, (skill.description, skill.when_to_use)))
    return f"{skill.name}: {escape_tags(mask_secrets(description))}"


def build_skill_offer(context: TurnContext) -> Offer:
    """Build the offer of the skills of a turn."""
    return Offer(TAG, SkillCatalog(context).describe)
