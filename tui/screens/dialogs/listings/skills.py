"""The dialog of the skills: those that the agent is told of, those that it is not, and why each."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from core.protocol.queries import LoadedSkill, SkillsAnswer
from core.text.counting import count
from tui.keymap import get_bindings
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import shorten_path

KEY_HINTS: Final = (("skills.open", "read it"), ("skills.leave", "back"))
STATES: Final = {"open": "open", "offered": "told", "named": "by name", "hidden": "not told"}
_BESIDE: Final = 46  # columns of a row and around it that are not the name's
_SHORTEST, _LONGEST = 14, 40
_UNTRUSTED: Final = "This project is not trusted: none of its own skills is read."
_NONE: Final = "There are no skills here. A folder .claude/skills/NAME with a SKILL.md makes one."


class SkillsDialog(ListingDialog[str]):
    """Shows every skill, then the files that make none; answers with the path of one to be read."""

    BINDINGS = get_bindings("skills")

    def __init__(self, answer: SkillsAnswer) -> None:
        super().__init__("Skills")
        self._found = answer

    def set_up(self) -> None:
        skills = self._found.skills
        visible_count = sum(skill.state != "hidden" for skill in skills)
        self.show_keys(KEY_HINTS)
        room = max(self.size.width - _BESIDE, _SHORTEST)
        width = min(max((len(skill.name) for skill in skills), default=0), _LONGEST, room)
        rows = [_format_skill(skill, width) for skill in skills]
        rows += [
            Content.assemble(("! ", "$text-warning"), shorten_path(extension.path, 60))
            for extension in self._found.skipped
        ]
        notes = () if self._found.is_trusted else (_UNTRUSTED,)
        self.show_rows(
            f"{count('skill', len(skills))}, {visible_count:,} told; the agent opens one when it fits", rows, notes
        )

    @property
    def _path(self) -> str:
        """The path of the marked row, "" = there is none."""
        index, skills, skipped_extensions = self.marked, self._found.skills, self._found.skipped
        return (
            ""
            if index is None
            else skills[index].path
            if index < len(skills)
            else skipped_extensions[index - len(skills)].path
        )

    def show_reason(self) -> None:
        index, skills = self.marked, self._found.skills
        if index is None:
            self.tell(_NONE if self._found.is_trusted else "")
        elif index < len(skills):
            self.tell(_explain(skills[index]), "$text-warning" if skills[index].note else "$foreground 60%")
        else:
            self.tell(f"No skill: {self._found.skipped[index - len(skills)].reason}", "$text-warning")

    def action_open(self) -> None:
        if not (path := self._path):
            return
        if path.startswith(("/", "~", "../")):
            self.tell(f"It lies outside of the project: {path}", "$text-warning")
        else:
            self.answer(path)


def _explain(skill: LoadedSkill) -> str:
    return ". ".join(filter(None, (f"Why: {skill.reason}", skill.note, skill.description)))


def _format_skill(skill: LoadedSkill, width: int) -> Content:
    is_told = skill.state != "hidden"
    style = "" if is_told else "$foreground 60%"
    return Content.assemble(
        ("+ " if is_told else "- ", "$accent" if is_told else style),
        (shorten_path(skill.name, width).ljust(width), style),
        (" !" if skill.note else "  ", "$text-warning"),
        (f" {STATES[skill.state]} · {skill.scope}, {shorten_path(skill.source, 20)}", "$foreground 60%"),
    )
