"""The dialog of the tools: those that the model sees, what each costs in a request, and why one is absent."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from core.protocol.queries import ToolsAnswer
from core.protocol.tools import ToolRow
from core.text.counting import count
from tui.keymap import get_bindings
from tui.quantities import format_count
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import fit_line

KEY_HINTS: Final = (("tools.leave", "back"),)
SIGNS: Final = {
    "listed": ("+", "$accent"),
    "told": ("+", "$text-success"),
    "callable": ("·", "$foreground 60%"),
    "absent": ("-", "$text-warning"),
}
WORDS: Final = {"listed": "in each request", "told": "told", "callable": "by name", "absent": "absent"}
_ORDER: Final = tuple(SIGNS)
_BESIDE: Final = 38  # columns of a row and around it that are not the name's
_SHORTEST, _LONGEST = 14, 34
_SETTINGS: Final = "[tools.NAME] in the configuration switches one off or narrows it: docs/configuration.md."


class ToolsDialog(ListingDialog[None]):
    """Shows every tool, those in each request first."""

    BINDINGS = get_bindings("tools")

    def __init__(self, answer: ToolsAnswer) -> None:
        super().__init__("Tools")
        self._mode = answer.mode
        self._tools = sorted(answer.tools, key=lambda tool: _ORDER.index(tool.state))

    def set_up(self) -> None:
        self.show_keys(KEY_HINTS)
        listed_tools = [tool for tool in self._tools if tool.state == "listed"]
        tokens = format_count(sum(tool.tokens for tool in listed_tools))
        room = max(self.size.width - _BESIDE, _SHORTEST)
        width = min(max((len(tool.name) for tool in self._tools), default=0), _LONGEST, room)
        absent = sum(tool.state == "absent" for tool in self._tools)
        total = (
            f"{count('tool', len(listed_tools))} in each request, {tokens} tokens; {absent} absent in {self._mode} mode"
        )
        self.show_rows(total, [_format_tool(tool, width) for tool in self._tools], (_SETTINGS,))

    def show_reason(self) -> None:
        if self.marked is not None:
            tool = self._tools[self.marked]
            names = f"also {', '.join(tool.aliases)}" if tool.aliases else ""
            message = ". ".join(filter(None, (f"{tool.name} {tool.reason}" if tool.reason else "", names)))
            self.tell(message, "$text-warning" if tool.state == "absent" else "$foreground 60%")


def _format_tool(tool: ToolRow, width: int) -> Content:
    sign, style = SIGNS[tool.state]
    name = fit_line(tool.name, width).ljust(width)
    tokens = f" · {format_count(tool.tokens)} tokens" if tool.tokens else ""
    faint = "$foreground 60%" if tool.state in {"callable", "absent"} else ""
    return Content.assemble(
        (f"{sign} ", style), (name, faint), (f"  {tool.access} · {WORDS[tool.state]}{tokens}", "$foreground 60%")
    )
