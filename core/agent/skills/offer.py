"""The offer of skills: names and descriptions, told with the first prompt that has any, and again when they changed."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from core.agent.context.prompt_tags import escape_tags
from core.agent.context.told_rules import list_paths_at_hand
from core.agent.skills.activation import load_session_skills
from core.agent.turn.offers import Offer, find_told_offer
from core.agent.turn.turn_context import TurnContext
from core.extensions.skills import Skill, SkillChoice, SkillQuery, SkillSet, choose_skills
from core.prompts import render
from core.secrets import mask_secrets

TAG: Final = "available_skills"
_TOLD_NAME: Final = re.compile(r"^- ([\w.:-]+): ", re.MULTILINE)


class SkillTeller(Struct):
    """Tells the model of one turn of the skills.

    They are read once for it: what comes meanwhile is told with the next prompt."""

    context: TurnContext
    skills: SkillSet | None = None

    async def choose(self) -> tuple[SkillChoice, ...]:
        """Decide on every skill for what is at hand now."""
        if self.skills is None:
            self.skills = await load_session_skills(self.context.permissions)
        context, state = self.context, self.context.state
        announced_names = _TOLD_NAME.findall(find_told_offer(TAG, state.messages))
        prompt = state.turns[-1].prompt if state.turns else ""
        paths = (*context.memory.paths_at_hand, *list_paths_at_hand(context))
        return choose_skills(self.skills.skills, SkillQuery(prompt=prompt, paths=paths, offered=announced_names))

    async def describe(self) -> str:
        """Describe the skills that are offered, "" = there are none."""
        if self.context.dialect == "command":  # it has no tool to open one with
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
    return Offer(TAG, SkillTeller(context).describe)
