"""Skills: folders with instructions for a kind of work, of which an agent is told the name until it needs one.

The format is that of agentskills.io, with the keys that Claude and Cursor have besides. A skill is read leniently: what
does not fit is told; without a description it is none. Its `allowed-tools` give no right.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.config.rules.front_matter import parse_patterns
from core.config.rules.places import UserPlace
from core.errors import PathRefused
from core.extensions.keys import describe_unknown_key, get_line, parse_bool, parse_names, read_name, sort_keys
from core.extensions.places import (
    SKILL_FILE,
    ExtensionFolder,
    Scope,
    SkippedFile,
    UnusableFile,
    collect_extensions,
)
from core.workspace.secret_files import may_be_secret

MAX_DESCRIPTION: Final = 1_024
MAX_LISTED_FILES: Final = 100
_STANDARD_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
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


class Skill(Struct, frozen=True, kw_only=True):
    """A skill. `path` is that of its `SKILL.md`, as the user and the model know it; `place`: its folder, from the top
    of the place that `folder` is in.

    `globs`: it is offered while a file at hand matches, () = always. `is_manual`: only the user calls it.
    `arguments`: names for what is given with it. `allowed_tools`: what it asks for, which is told and grants nothing.
    """

    name: str
    description: str
    body: str
    path: str
    place: str
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
        """Its folder on disk; the user's own with links resolved."""
        path = Path(self.folder.show(self.place)).expanduser()
        return path.resolve() if isinstance(self.folder.place, UserPlace) else path

    def list_variables(self) -> dict[str, str]:
        """Return the variables of its text that it gives itself, by name."""
        variables = {"CLAUDE_SKILL_DIR": str(self.directory)}
        if self.folder.plugin:
            variables["CLAUDE_PLUGIN_ROOT"] = str(Path(self.folder.show(self.folder.path)).expanduser())
        return variables


class SkillSet(Struct, frozen=True, kw_only=True):
    """The skills that count, the strongest first, and the files that make none, with the reason for each."""

    skills: tuple[Skill, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()

    def find(self, name: str) -> Skill | None:
        return next((skill for skill in self.skills if skill.name == name), None)


def load_skills(folders: Iterable[ExtensionFolder]) -> SkillSet:
    """Load the skills of these folders, the strongest first."""
    skills, skipped_files = collect_extensions("skill", folders, _list_skill_places, _read_skill)
    return SkillSet(skills=skills, skipped=skipped_files)


def _list_skill_places(folder: ExtensionFolder) -> list[str]:
    """List the `SKILL.md` files; those below another one are files of that skill."""
    paths: list[str] = []
    for path in folder.list_files("skills", f"/{SKILL_FILE}"):
        if not any(path.startswith(f"{skill_path.rpartition('/')[0]}/") for skill_path in paths):
            paths.append(path)
    return paths


def _read_skill(folder: ExtensionFolder, path: str) -> Skill:
    text = folder.read_text(path)
    values, unknown = sort_keys(text.front, PROMPT_KEYS)
    description = get_line(values, "description")
    if not description:
        reason = text.notes[-1] if text.notes and not text.front else "it has no description"
        raise UnusableFile(f"{reason}, so nobody knows when to use it")
    problems = [*text.notes, *(describe_unknown_key(key, PROMPT_KEYS) for key in unknown), *_list_unused(values)]
    folder_name = path.rpartition("/")[0].rpartition("/")[2]
    name = read_name(get_line(values, "name") or folder_name, problems)
    if name != folder_name or not _STANDARD_NAME.fullmatch(name):
        standard = "lower-case letters, digits and single hyphens, and the folder's own"
        problems.append(f"the name {name!r} is not as the standard wants it ({standard}: {folder_name!r})")
    if len(description) > MAX_DESCRIPTION:
        problems.append(f"its description is cut after {MAX_DESCRIPTION:,} characters")
    return Skill(
        name=folder.qualify(name),
        description=description[:MAX_DESCRIPTION],
        body=text.body,
        path=folder.show(path),
        place=path.rpartition("/")[0],
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
    """List the files beside its `SKILL.md`, from its folder, sorted; the first `MAX_LISTED_FILES`."""
    start = len(skill.place) + 1
    paths = [f"{above}/{name}"[start:] for above, names in skill.folder.iter_folders(skill.place) for name in names]
    return sorted(path for path in paths if path != SKILL_FILE)[:MAX_LISTED_FILES]


def read_skill_file(skill: Skill, name: str) -> bytes:
    """Read a file of a skill's folder. Raises `UnusableFile`: it leads out of it, is none, or may hold secrets."""
    plain = posixpath.normpath(name)
    if name.startswith(("/", "~")) or plain == ".." or plain.startswith("../"):
        raise UnusableFile(f"{name[:200]!r} leads out of the skill's folder")
    if may_be_secret(plain.rpartition("/")[2]):
        raise UnusableFile("its name is one of files with secrets")
    if isinstance(skill.folder.place, UserPlace) and not _lies_within(skill.directory, plain):
        raise UnusableFile(f"{name[:200]!r} leads out of the skill's folder")
    try:
        return skill.folder.place.read(f"{skill.place}/{plain}")
    except PathRefused as refused:
        raise UnusableFile(refused.message.rstrip(".")) from None


def _lies_within(directory: Path, name: str) -> bool:
    try:
        return (directory / name).resolve().is_relative_to(directory)
    except (OSError, RuntimeError, ValueError):
        return False
