"""The dialog of the rules: what the agent is told to keep to, what it is not told, and why each."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from core.protocol.events import LoadedRule
from core.protocol.queries import RulesAnswer
from core.text.counting import count
from tui.keymap import get_bindings
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import shorten_path

KEY_HINTS: Final = (("rules.open", "read it"), ("rules.leave", "back"))
KINDS: Final = {
    "always": "always",
    "globs": "by file",
    "described": "fetched",
    "manual": "by name",
    "agents_md": "instructions",
    "claude_md": "instructions",
    "memory": "memory",
}
_BESIDE: Final = 42  # columns of a row and around it that are not the path's
_SHORTEST, _LONGEST = 18, 52
_UNTRUSTED: Final = "This project is not trusted: none of its own rules is read."
_NONE: Final = "There are no rules here. AGENTS.md in the project is where to begin; /init writes one for your review."


class RulesDialog(ListingDialog[str]):
    """Shows every rule, those that the agent was told first; answers with the path of one to be read."""

    BINDINGS = get_bindings("rules")

    def __init__(self, answer: RulesAnswer) -> None:
        super().__init__("Rules")
        self._rules = sorted(answer.rules, key=lambda rule: (rule.position == 0, rule.position))
        self._is_trusted = answer.is_trusted

    def set_up(self) -> None:
        active_count = sum(rule.position > 0 for rule in self._rules)
        total = f"{count('rule', active_count)} told, {len(self._rules) - active_count:,} not; the later one holds"
        notes = () if self._is_trusted else (_UNTRUSTED,)
        self.show_keys(KEY_HINTS)
        room = max(self.size.width - _BESIDE, _SHORTEST)
        width = min(max((len(rule.path) for rule in self._rules), default=0), _LONGEST, room)
        self.show_rows(total, [_format_rule(rule, width) for rule in self._rules], notes)

    @property
    def _rule(self) -> LoadedRule | None:
        return self._rules[self.marked] if self.marked is not None and self.marked < len(self._rules) else None

    def show_reason(self) -> None:
        rule = self._rule
        if rule is None:
            self.tell(_NONE if self._is_trusted else "")
            return
        message = ". ".join(filter(None, (f"Why: {rule.reason}" if rule.reason else "", rule.note)))
        self.tell(message, "$text-warning" if rule.note else "$foreground 60%")

    def action_open(self) -> None:
        if (rule := self._rule) is None:
            return
        if rule.kind == "memory":
            self.tell("A note that you accepted. /memory shows and changes it.")
        elif rule.path.startswith(("/", "~", "../")):
            self.tell(f"It lies outside of the project: {rule.path}", "$text-warning")
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
