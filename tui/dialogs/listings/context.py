"""Lists of the model's context: its parts, rules, skills, and the notes about the project.

Forgetting a stored note takes the same key twice; a proposed note is dropped at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input

from core.protocol.commands import MemoryJudge
from core.protocol.events import LoadedRule
from core.protocol.queries import ContextAnswer, ContextPart, LoadedSkill, MemoryNote, RulesAnswer, SkillsAnswer
from core.text.counting import count
from tui.dialogs.listings.listing import ListingDialog
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.text import expose_line, fit_line, render_prose, shorten_path
from tui.widgets.input_line import InputLine, InputPurpose
from tui.workers import start_worker

_CONTEXT_HINTS: Final = (("context.drop", "leave out"), ("context.leave", "back"))
DropPart = Callable[[str], Awaitable[ContextAnswer | None]]
_RULE_HINTS: Final = (("rules.open", "open"), ("rules.leave", "back"))
KINDS: Final = {
    "always": "always",
    "globs": "by file",
    "described": "fetched",
    "manual": "by name",
    "agents_md": "instructions",
    "claude_md": "instructions",
    "memory": "memory",
}
_RULE_MARGIN: Final = 42  # columns of a row and around it that are not the path's
_MIN_RULE_ROWS, _MAX_RULE = 18, 52
_UNTRUSTED_RULE: Final = "This project is not trusted: its own rules are not loaded."
_NO_RULES: Final = "No rules here. Start with an AGENTS.md; /init writes one for your review."
_NOTE_HINTS: Final = (
    ("memory.accept", "keep"),
    ("memory.reject", "drop"),
    ("memory.edit", "edit"),
    ("memory.leave", "back"),
)
_NO_NOTES: Final = "No notes yet. Add one with /memory TEXT; notes the agent proposes appear here for approval."
_MAX_ROW: Final = 400
Judge = Callable[[Sequence[MemoryJudge]], Awaitable[Sequence[MemoryNote] | None]]
_SKILL_HINTS: Final = (("skills.open", "open"), ("skills.leave", "back"))
STATES: Final = {"open": "open", "offered": "offered", "named": "by name", "hidden": "not offered"}
_SKILL_MARGIN: Final = 46  # columns of a row and around it that are not the name's
_MIN_SKILL_ROWS, _MAX_SKILL = 14, 40
_UNTRUSTED_SKILL: Final = "This project is not trusted: its own skills are not loaded."
_NO_SKILLS: Final = "No skills here. To add one, create .claude/skills/NAME/SKILL.md."


class ContextDialog(ListingDialog[None]):
    """Shows a report. `drop` leaves a part out and returns the report after that; None = it was refused."""

    BINDINGS = get_bindings("context")

    def __init__(self, report: ContextAnswer, drop: DropPart) -> None:
        super().__init__("Context")
        self._report, self._drop = report, drop
        self._confirming_id = ""  # id of the part that the key was pressed for once

    def set_up(self) -> None:
        self.show_keys(_CONTEXT_HINTS)
        self._show(0)

    def _show(self, index: int) -> None:
        report = self._report
        window = f" of {report.window:,}" if report.window else ""
        rows = [_format_part(part) for part in report.parts]
        self.show_rows(f"{report.used:,}{window} tokens", rows, report.notes, index)

    @property
    def _part(self) -> ContextPart | None:
        index = self.marked
        return self._report.parts[index] if index is not None and index < len(self._report.parts) else None

    def show_reason(self) -> None:
        part = self._part
        if part is None:
            return
        if self._confirming_id and part.id == self._confirming_id:
            key = format_first_key("context.drop", get_keymap(self.app))
            text = f"Press {key} again to leave out {part.tokens:,} tokens; the provider's cache is lost from there on."
            self.show_note(text, "$text-warning")
            return
        self._confirming_id = ""
        objection = f" Can't leave it out: {part.problem}." if part.problem else ""
        self.show_note(f"{part.reason[:1].upper()}{part.reason[1:]}.{objection}" if part.reason else objection)

    def action_drop(self) -> None:
        part = self._part
        if part is None:
            return
        if part.problem or not part.id:
            self.show_note(
                f"Can't leave it out: {part.problem or 'it is not part of the conversation'}.", "$text-warning"
            )
        elif self._confirming_id != part.id:
            self._confirming_id = part.id
            self.show_reason()
        else:
            self._confirming_id = ""
            start_worker(self, self._leave_out, part.id, group="drop")

    async def _leave_out(self, part: str) -> None:
        index = self.marked or 0
        if (report := await self._drop(part)) is not None and self.is_attached:
            self._report = report
            self._show(index)


def _format_part(part: ContextPart) -> Content:
    detail = f"  {fit_line(part.detail, 60)}" if part.detail else ""
    sign = " " if part.problem or not part.id else "·"
    name = fit_line(part.name, 60)
    return Content.assemble((f"{part.tokens:>9,} ", "$accent"), f"{sign} {name}", (detail, "$foreground 60%"))


class RulesDialog(ListingDialog[str]):
    """Lists every rule, those sent to the agent first; answers with the path of one to read."""

    BINDINGS = get_bindings("rules")

    def __init__(self, answer: RulesAnswer) -> None:
        super().__init__("Rules")
        self._rules = sorted(answer.rules, key=lambda rule: (rule.position == 0, rule.position))
        self._is_trusted = answer.is_trusted

    def set_up(self) -> None:
        active_count = sum(rule.position > 0 for rule in self._rules)
        total = f"{count('active rule', active_count)}, {len(self._rules) - active_count:,} inactive; later rules win"
        notes = () if self._is_trusted else (_UNTRUSTED_RULE,)
        self.show_keys(_RULE_HINTS)
        room = max(self.size.width - _RULE_MARGIN, _MIN_RULE_ROWS)
        width = min(max((len(rule.path) for rule in self._rules), default=0), _MAX_RULE, room)
        self.show_rows(total if self._rules else "", [_format_rule(rule, width) for rule in self._rules], notes)

    @property
    def _rule(self) -> LoadedRule | None:
        return self._rules[self.marked] if self.marked is not None and self.marked < len(self._rules) else None

    def show_reason(self) -> None:
        rule = self._rule
        if rule is None:
            self.show_note(_NO_RULES if self._is_trusted else "")
            return
        message = " · ".join(filter(None, (f"Why: {rule.reason}" if rule.reason else "", rule.note)))
        self.show_note(message, "$text-warning" if rule.note else "$foreground 60%")

    def action_open(self) -> None:
        if (rule := self._rule) is None:
            return
        if rule.kind == "memory":
            self.show_note("A note you accepted. Edit it with /memory.")
        elif rule.path.startswith(("/", "~", "../")):
            self.show_note(f"Outside the project: {rule.path}", "$text-warning")
        else:
            self.answer(rule.path)


def _format_rule(rule: LoadedRule, width: int) -> Content:
    position_label = f"{rule.position:>3} " if rule.position else "  - "
    style = "$accent" if rule.position else "$foreground 60%"
    mark = " !" if rule.note else "  "
    return Content.assemble(
        (position_label, style),
        (shorten_path(rule.path, width).ljust(width), "" if rule.position else style),
        (mark, "$text-warning"),
        (f" {KINDS[rule.kind]} · {count('byte', rule.size)}", "$foreground 60%"),
    )


class NoteInput(InputLine):
    """Asks for the words of a note."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {"note": InputPurpose("What to remember", "keep")}


class MemoryDialog(ListingDialog[None]):
    """Shows notes, pending ones first. `judge` submits verdicts and returns the notes after them, None = failed."""

    BINDINGS = get_bindings("memory")

    def __init__(self, notes: Sequence[MemoryNote], judge: Judge) -> None:
        super().__init__("Project memory")
        self._notes = _sort(notes)
        self._send_verdicts = judge
        self._confirming_id = ""  # id of the stored note that the key was pressed for once

    def compose_body(self) -> ComposeResult:
        yield from super().compose_body()
        yield NoteInput(select_on_focus=False)

    def set_up(self) -> None:
        self.show_keys(_NOTE_HINTS)
        self._show(0)

    def _show(self, index: int) -> None:
        waiting = sum(not note.is_kept for note in self._notes)
        summary = f"{count('note', len(self._notes) - waiting)} saved"
        total = f"{waiting} pending · {summary}" if waiting else summary
        self.show_rows(total if self._notes else "", [_format(note) for note in self._notes], (), index)

    @property
    def _note(self) -> MemoryNote | None:
        return self._notes[self.marked] if self.marked is not None and self.marked < len(self._notes) else None

    def show_reason(self) -> None:
        note = self._note
        if note is None:
            self.show_note(_NO_NOTES)
            return
        if note.id == self._confirming_id:
            self.show_note(
                f"{format_first_key('memory.reject', get_keymap(self.app))} again to remove it.", "$text-warning"
            )
            return
        self._confirming_id = ""
        day = time.strftime("%Y-%m-%d", time.localtime(note.at / 1000))
        reason = f": {note.why}" if note.why else ""
        self.show_note(f"{'Saved' if note.is_kept else 'Proposed'} {day}{reason}")

    def action_accept(self) -> None:
        if (note := self._note) is not None and not note.is_kept:
            self._carry_out(MemoryJudge(id=note.id, verdict="accept"))

    def action_accept_all(self) -> None:
        self._carry_out(*(MemoryJudge(id=note.id, verdict="accept") for note in self._notes if not note.is_kept))

    def action_reject(self) -> None:
        if (note := self._note) is None:
            return
        if note.is_kept and self._confirming_id != note.id:
            self._confirming_id = note.id
            self.show_reason()
        else:
            self._carry_out(MemoryJudge(id=note.id, verdict="reject"))

    def action_edit(self) -> None:
        if (note := self._note) is not None:
            line = self.query_one(NoteInput)
            line.ask("note", render_prose(note.text))
            self.show_keys(line.hints)

    @on(Input.Submitted)
    def _apply_edit(self, event: Input.Submitted) -> None:
        self._close_input()
        text = event.value.strip()
        if (note := self._note) is not None and text and (text != note.text or not note.is_kept):
            self._carry_out(MemoryJudge(id=note.id, verdict="accept", text=text))

    @on(InputLine.Cancelled)
    def _close_input(self) -> None:
        self.query_one(NoteInput).close()
        self.show_keys(_NOTE_HINTS)
        self.set_focus(None)

    def _carry_out(self, *verdicts: MemoryJudge) -> None:
        if verdicts:
            start_worker(self, self._submit, verdicts, group="memory")

    async def _submit(self, verdicts: Sequence[MemoryJudge]) -> None:
        index = self.marked or 0
        if (notes := await self._send_verdicts(verdicts)) is not None and self.is_attached:
            self._notes, self._confirming_id = _sort(notes), ""
            self._show(index)


def _sort(notes: Sequence[MemoryNote]) -> list[MemoryNote]:
    return sorted(notes, key=lambda note: (note.is_kept, note.at))


def _format(note: MemoryNote) -> Content:
    mark = ("✓ ", "$text-success") if note.is_kept else ("? ", "$text-warning")
    return Content.assemble(mark, expose_line(note.text, _MAX_ROW))


class SkillsDialog(ListingDialog[str]):
    """Shows every skill, then files that define none; answers with the path of one to read."""

    BINDINGS = get_bindings("skills")

    def __init__(self, answer: SkillsAnswer) -> None:
        super().__init__("Skills")
        self._answer = answer

    def set_up(self) -> None:
        skills = self._answer.skills
        visible_count = sum(skill.state != "hidden" for skill in skills)
        self.show_keys(_SKILL_HINTS)
        room = max(self.size.width - _SKILL_MARGIN, _MIN_SKILL_ROWS)
        width = min(max((len(skill.name) for skill in skills), default=0), _MAX_SKILL, room)
        rows = [_format_skill(skill, width) for skill in skills]
        rows += [
            Content.assemble(("! ", "$text-warning"), shorten_path(extension.path, 60))
            for extension in self._answer.skipped
        ]
        notes = () if self._answer.is_trusted else (_UNTRUSTED_SKILL,)
        total = f"{count('skill', len(skills))}, {visible_count:,} offered; the agent opens one when it fits"
        self.show_rows(total if rows else "", rows, notes)

    @property
    def _path(self) -> str:
        """The path of the marked row, "" = there is none."""
        index, skills, skipped_extensions = self.marked, self._answer.skills, self._answer.skipped
        return (
            ""
            if index is None
            else skills[index].path
            if index < len(skills)
            else skipped_extensions[index - len(skills)].path
        )

    def show_reason(self) -> None:
        index, skills = self.marked, self._answer.skills
        if index is None:
            self.show_note(_NO_SKILLS if self._answer.is_trusted else "")
        elif index < len(skills):
            self.show_note(_explain(skills[index]), "$text-warning" if skills[index].note else "$foreground 60%")
        else:
            self.show_note(f"Not a skill: {self._answer.skipped[index - len(skills)].reason}", "$text-warning")

    def action_open(self) -> None:
        if not (path := self._path):
            return
        if path.startswith(("/", "~", "../")):
            self.show_note(f"Outside the project: {path}", "$text-warning")
        else:
            self.answer(path)


def _explain(skill: LoadedSkill) -> str:
    return " · ".join(filter(None, (f"Why: {skill.reason}", skill.note, skill.description)))


def _format_skill(skill: LoadedSkill, width: int) -> Content:
    is_visible = skill.state != "hidden"
    style = "" if is_visible else "$foreground 60%"
    return Content.assemble(
        ("+ " if is_visible else "- ", "$accent" if is_visible else style),
        (shorten_path(skill.name, width).ljust(width), style),
        (" !" if skill.note else "  ", "$text-warning"),
        (f" {STATES[skill.state]} · {skill.scope}, {shorten_path(skill.source, 20)}", "$foreground 60%"),
    )
