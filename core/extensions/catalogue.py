"""The catalogue of skills: those that a model is told of, within a budget, and the reason for each.

Beyond the budget the words of the prompt choose (Okapi BM25 over name, description and `when_to_use`). What was told
stays told as long as it holds the best ones, since a changed catalogue is sent again as a whole.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from core.config.rules.globs import matches
from core.extensions.skills import Skill

BUDGET: Final = 8_000  # characters of names and descriptions: about 2,000 tokens
MAX_NAMES: Final = 2_000  # characters of the names of all others
BEST: Final = 3  # skills that the words of a prompt must find in the catalogue
_K1, _B = 1.2, 0.75
_WORD: Final = re.compile(r"[^\W_]+")
_PLURAL: Final = re.compile(r"(?<=[a-z]{3})(?:ies|es|s|ing|ed)$")


class SkillOccasion(Struct, frozen=True, kw_only=True):
    """The occasion to choose skills for: the words of the user's latest `prompt`, `paths` at hand, and the names that
    the model was `told` last."""

    prompt: str = ""
    paths: Sequence[str] = ()
    told: Collection[str] = ()


class SkillChoice(Struct, frozen=True, kw_only=True):
    """A skill with the decision on it. `is_offered`: the model is told its description; `is_named`: its name alone."""

    skill: Skill
    reason: str
    is_offered: bool = False
    is_named: bool = False


def choose_skills(skills: Sequence[Skill], occasion: SkillOccasion) -> tuple[SkillChoice, ...]:
    """Decide on every skill for an occasion, in the order of the skills."""
    hindrances = {skill.name: reason for skill in skills if (reason := _find_hindrance(skill, occasion.paths))}
    usable_skills = [skill for skill in skills if skill.name not in hindrances]
    offer_reasons = _fill_budget(usable_skills, occasion)
    room = MAX_NAMES
    choices = []
    for skill in skills:
        if reason := hindrances.get(skill.name, ""):
            choices.append(SkillChoice(skill=skill, reason=reason))
        elif skill.name in offer_reasons:
            choices.append(SkillChoice(skill=skill, reason=offer_reasons[skill.name], is_offered=True))
        else:
            room -= len(skill.name) + 2
            reason = "all skills together are larger than the catalogue may be, and others fit your words better"
            choices.append(SkillChoice(skill=skill, reason=reason, is_named=room >= 0))
    return tuple(choices)


def _find_hindrance(skill: Skill, paths: Sequence[str]) -> str:
    """Return why the model is not told of a skill, whatever room there is; "" = nothing hinders."""
    if skill.is_manual:
        return f"only you call it: /{skill.name}"
    if skill.globs and not any(matches(glob, path) for glob in skill.globs for path in paths):
        return f"no file at hand matches {', '.join(skill.globs)}"
    return ""


def _measure(skill: Skill) -> int:
    return len(skill.name) + len(skill.description) + len(skill.when_to_use) + 4


def _fill_budget(skills: Sequence[Skill], occasion: SkillOccasion) -> dict[str, str]:
    """Return the names of those that fit, with the reason."""
    if sum(map(_measure, skills)) <= BUDGET:
        return {skill.name: "its name and description are told" for skill in skills}
    ranking = rank_skills(skills, occasion.prompt)
    by_name = {skill.name: skill for skill in skills}
    listed_skills = [by_name[name] for name in occasion.told if name in by_name]
    is_enough = listed_skills and {ranked_skill.name for ranked_skill, score in ranking[:BEST] if score > 0} <= {
        listed_skill.name for listed_skill in listed_skills
    }
    room, reasons = BUDGET, {}
    for skill in listed_skills if is_enough else [ranked_skill for ranked_skill, _ in ranking]:
        room -= _measure(skill)
        if room < 0:
            break
        reasons[skill.name] = "told, of more than there is room for: it fits your words"
    return reasons


def rank_skills(skills: Sequence[Skill], words: str) -> list[tuple[Skill, float]]:
    """Rank skills for some words by BM25, the best first; those without any of them keep their order."""
    texts = [Counter(_split(f"{skill.name} {skill.name} {skill.description} {skill.when_to_use}")) for skill in skills]
    average = sum(text.total() for text in texts) / max(len(texts), 1) or 1.0
    holding = Counter(word for text in texts for word in text)
    query_words = set(_split(words))

    def measure_fit(text: Counter[str]) -> float:
        norm = _K1 * (1 - _B + _B * text.total() / average)
        score = 0.0
        for word in query_words & text.keys():
            rarity = math.log(1 + (len(texts) - holding[word] + 0.5) / (holding[word] + 0.5))
            score += rarity * text[word] * (_K1 + 1) / (text[word] + norm)
        return score

    scores = [measure_fit(text) for text in texts]
    return sorted(zip(skills, scores, strict=True), key=lambda pair: -pair[1])


def _split(text: str) -> list[str]:
    return [_PLURAL.sub("", word) for word in _WORD.findall(text.lower())]
