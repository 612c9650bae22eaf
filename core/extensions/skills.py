"""Skills: folders with instructions for a kind of work, and the catalogue of those that a model is offered.

The format is that of agentskills.io, with further keys of Claude and Cursor. A skill is read leniently: what does not
fit is reported, and one without a description is skipped. Its `allowed-tools` grant nothing. The model gets the names
and descriptions of skills within a budget; beyond it the words of the prompt choose (Okapi BM25 over name, description
and `when_to_use`). A catalogue stays the same as long as it holds the best skills, because a changed one is sent as a
whole.
"""

from __future__ import annotations

import math
import posixpath
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.config.rules.file_text import parse_patterns
from core.config.rules.roots import UserRoot
from core.errors import PathRefused
from core.extensions.extension_files import (
    SKILL_FILE,
    ExtensionFolder,
    InvalidExtension,
    Scope,
    SkippedFile,
    collect_extensions,
    describe_unknown_key,
    get_line,
    parse_bool,
    parse_names,
    read_name,
    split_known_keys,
)
from core.patterns import compile_lazily
from core.text.path_patterns import matches
from core.workspace.secret_files import may_be_secret

MAX_DESCRIPTION: Final = 1_024
MAX_LISTED_FILES: Final = 100
_STANDARD_NAME: Final = compile_lazily(r"[a-z0-9]+(-[a-z0-9]+)*")
PROMPT_KEYS: Final[Mapping[str, str]] = {
    "name": "name",
    "description": "description",
    "when_to_use": "when_to_use",
    "argument-hint": "argument_hint",
    "arguments": "arguments",
    "disable-model-invocation": "is_manual",
    "user-invocable": "is_user_invocable",
    "allowed-tools": "allowed_tools",
    "disallowed-tools": "disallowed_tools",
    "model": "model",
    "effort": "effort",
    "context": "context",
    "agent": "agent",
    "background": "background",
    "hooks": "hooks",
    "shell": "shell",
    "paths": "paths",
    "globs": "globs",
}
_UNUSED: Final = ("disallowed_tools", "model", "effort", "context", "agent", "background", "hooks", "shell")
BUDGET: Final = 8_000  # characters of names and descriptions, about 2,000 tokens
MAX_NAMES: Final = 2_000  # characters of the names of all others
BEST: Final = 3  # best skills for a prompt that the catalogue must contain
_BM25_K1, _BM25_B = 1.2, 0.75
_WORD: Final = compile_lazily(r"[^\W_]+")
_PLURAL: Final = compile_lazily(r"(?<=[a-z]{3})(?:ies|es|s|ing|ed)$")


class Skill(Struct, frozen=True, kw_only=True):
    """A skill. `path`: of its `SKILL.md`, for the user and the model; `folder_path`: its folder, from the top of the
    root.

    `globs`: it is offered while a file at hand matches, () = always. `is_manual`: only the user calls it. `arguments`:
    names of its arguments. `allowed_tools`: the tools that it requests, which are shown and grant nothing.
    """

    name: str
    description: str
    body: str
    path: str
    folder_path: str
    scope: Scope
    source: str
    folder: ExtensionFolder
    when_to_use: str = ""
    argument_hint: str = ""
    arguments: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    is_manual: bool = False
    is_user_invocable: bool = True
    allowed_tools: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """Its folder on disk; for the user's own, with links resolved."""
        path = Path(self.folder.show(self.folder_path)).expanduser()
        return path.resolve() if isinstance(self.folder.root, UserRoot) else path

    def list_variables(self) -> dict[str, str]:
        """Return the variables that its text may use, by name."""
        variables = {"CLAUDE_SKILL_DIR": str(self.directory)}
        if self.folder.plugin:
            variables["CLAUDE_PLUGIN_ROOT"] = str(Path(self.folder.show(self.folder.path)).expanduser())
        return variables


class SkillSet(Struct, frozen=True, kw_only=True):
    """The skills, strongest first, and the skipped files with reasons."""

    skills: tuple[Skill, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()

    def find(self, name: str) -> Skill | None:
        return next((skill for skill in self.skills if skill.name == name), None)


def load_skills(folders: Iterable[ExtensionFolder]) -> SkillSet:
    """Load the skills of these folders, strongest first."""
    skills, skipped_files = collect_extensions("skill", folders, _list_skill_files, _read_skill)
    return SkillSet(skills=skills, skipped=skipped_files)


def _list_skill_files(folder: ExtensionFolder) -> list[str]:
    """List the `SKILL.md` files; those below another one belong to that skill."""
    paths: list[str] = []
    for path in folder.list_files("skills", f"/{SKILL_FILE}"):
        if not any(path.startswith(f"{skill_path.rpartition('/')[0]}/") for skill_path in paths):
            paths.append(path)
    return paths


def _read_skill(folder: ExtensionFolder, path: str) -> Skill:
    text = folder.read_text(path)
    values, unknown = split_known_keys(text.front, PROMPT_KEYS)
    description = get_line(values, "description")
    if not description:
        reason = text.notes[-1] if text.notes and not text.front else "it has no description"
        raise InvalidExtension(f"{reason}, so the agent can't tell when to use it")
    problems = [*text.notes, *(describe_unknown_key(key, PROMPT_KEYS) for key in unknown), *_list_unused(values)]
    folder_name = path.rpartition("/")[0].rpartition("/")[2]
    name = read_name(get_line(values, "name") or folder_name, problems)
    if name != folder_name or not _STANDARD_NAME.fullmatch(name):
        standard = "lowercase letters, digits and single hyphens, same as the folder"
        problems.append(f"the name {name!r} does not follow the standard ({standard}: {folder_name!r})")
    if len(description) > MAX_DESCRIPTION:
        problems.append(f"its description is cut after {MAX_DESCRIPTION:,} characters")
    return Skill(
        name=folder.qualify(name),
        description=description[:MAX_DESCRIPTION],
        body=text.body,
        path=folder.show(path),
        folder_path=path.rpartition("/")[0],
        scope=folder.scope,
        source=folder.plugin or folder.word,
        folder=folder,
        when_to_use=get_line(values, "when_to_use")[:MAX_DESCRIPTION],
        argument_hint=get_line(values, "argument_hint"),
        arguments=tuple(name for entry in parse_names(values, "arguments") for name in entry.split()),
        globs=(*parse_patterns(values, "paths"), *parse_patterns(values, "globs")),
        is_manual=parse_bool(values.get("is_manual", "")) is True,
        is_user_invocable=parse_bool(values.get("is_user_invocable", "")) is not False,
        allowed_tools=parse_names(values, "allowed_tools"),
        problems=tuple(problems),
    )


def _list_unused(values: Mapping[str, object]) -> list[str]:
    spelt = {name: key for key, name in PROMPT_KEYS.items()}
    return [f"`{spelt[name]}` is not used" for name in _UNUSED if name in values]


def list_skill_files(skill: Skill) -> list[str]:
    """List the files next to its `SKILL.md`, relative and sorted; the first `MAX_LISTED_FILES`."""
    start = len(skill.folder_path) + 1
    paths = [
        f"{above}/{name}"[start:] for above, names in skill.folder.iter_folders(skill.folder_path) for name in names
    ]
    return sorted(path for path in paths if path != SKILL_FILE)[:MAX_LISTED_FILES]


def read_skill_file(skill: Skill, name: str) -> bytes:
    """Read a file of a skill's folder. Raises `InvalidExtension`: it is outside, missing, or may hold secrets."""
    plain = posixpath.normpath(name)
    if name.startswith(("/", "~")) or plain == ".." or plain.startswith("../"):
        raise InvalidExtension(f"{name[:200]!r} is outside the skill's folder")
    if may_be_secret(plain.rpartition("/")[2]):
        raise InvalidExtension("its name suggests secrets")
    if isinstance(skill.folder.root, UserRoot) and not _lies_within(skill.directory, plain):
        raise InvalidExtension(f"{name[:200]!r} is outside the skill's folder")
    try:
        return skill.folder.root.read(f"{skill.folder_path}/{plain}")
    except PathRefused as refused:
        raise InvalidExtension(refused.message.rstrip(".")) from None


def _lies_within(directory: Path, name: str) -> bool:
    try:
        return (directory / name).resolve().is_relative_to(directory)
    except (OSError, RuntimeError, ValueError):
        return False


class SkillQuery(Struct, frozen=True, kw_only=True):
    """The criteria of a choice: the latest `prompt`, `paths` at hand, and the skills `offered` last."""

    prompt: str = ""
    paths: Sequence[str] = ()
    offered: Collection[str] = ()


class SkillChoice(Struct, frozen=True, kw_only=True):
    """A skill with the decision on it. `is_offered`: the model gets its description; `is_named`: only its name."""

    skill: Skill
    reason: str
    is_offered: bool = False
    is_named: bool = False


def choose_skills(skills: Sequence[Skill], occasion: SkillQuery) -> tuple[SkillChoice, ...]:
    """Decide on every skill, in the order of the skills."""
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
            reason = "there are too many skills to list all, and others fit your words better"
            choices.append(SkillChoice(skill=skill, reason=reason, is_named=room >= 0))
    return tuple(choices)


def _find_hindrance(skill: Skill, paths: Sequence[str]) -> str | None:
    """Return why a skill is not offered regardless of the budget; None: nothing hinders."""
    if skill.is_manual:
        return f"only you can call it: /{skill.name}"
    if skill.globs and not any(matches(glob, path) for glob in skill.globs for path in paths):
        return f"no file in use matches {', '.join(skill.globs)}"
    return None


def _measure(skill: Skill) -> int:
    return len(skill.name) + len(skill.description) + len(skill.when_to_use) + 4


def _fill_budget(skills: Sequence[Skill], occasion: SkillQuery) -> dict[str, str]:
    """Return the names of the skills within the budget, with reasons."""
    if sum(map(_measure, skills)) <= BUDGET:
        return {skill.name: "its name and description are listed" for skill in skills}
    ranking = rank_skills(skills, occasion.prompt)
    by_name = {skill.name: skill for skill in skills}
    listed_skills = [by_name[name] for name in occasion.offered if name in by_name]
    is_enough = listed_skills and {ranked_skill.name for ranked_skill, score in ranking[:BEST] if score > 0} <= {
        listed_skill.name for listed_skill in listed_skills
    }
    room, reasons = BUDGET, {}
    for skill in listed_skills if is_enough else [ranked_skill for ranked_skill, _ in ranking]:
        room -= _measure(skill)
        if room < 0:
            break
        reasons[skill.name] = "listed, out of too many: it fits your words"
    return reasons


def rank_skills(skills: Sequence[Skill], words: str) -> list[tuple[Skill, float]]:
    """Rank skills by BM25 for some words, best first; ties stay in order."""
    texts = [
        Counter(_split_words(f"{skill.name} {skill.name} {skill.description} {skill.when_to_use}")) for skill in skills
    ]
    average = sum(text.total() for text in texts) / max(len(texts), 1) or 1.0
    holding = Counter(word for text in texts for word in text)
    query_words = set(_split_words(words))

    def measure_fit(text: Counter[str]) -> float:
        norm = _BM25_K1 * (1 - _BM25_B + _BM25_B * text.total() / average)
        score = 0.0
        for word in query_words & text.keys():
            rarity = math.log(1 + (len(texts) - holding[word] + 0.5) / (holding[word] + 0.5))
            score += rarity * text[word] * (_BM25_K1 + 1) / (text[word] + norm)
        return score

    scores = [measure_fit(text) for text in texts]
    return sorted(zip(skills, scores, strict=True), key=lambda pair: -pair[1])


def _split_words(text: str) -> list[str]:
    return [_PLURAL.sub("", word) for word in _WORD.findall(text.lower())]
