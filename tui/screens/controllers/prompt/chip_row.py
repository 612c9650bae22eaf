"""The row of chips above the prompt: what goes along with it, as the engine finds it while it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.protocol import queries
from tui.chat.context_chips import ContextChips
from tui.screens.controller import ScreenContext

if TYPE_CHECKING:
    from textual.timer import Timer

CHIPS_WAIT: Final = 0.12  # seconds without a letter after which the engine is asked what goes with the prompt
ASK_PREFIX: Final = "?"  # where the user types the commands: what goes to the model all the same


class ChipRow:
    """Everything that goes with the prompt, as the engine finds it a moment after the last letter, without what the
    user has removed; that stays away until the prompt is sent or emptied."""

    def __init__(self, context: ScreenContext) -> None:
        self._context = context
        self._removed: set[str] = set()
        self._found = queries.PromptContextAnswer()
        self._timer: Timer | None = None

    def refresh_soon(self) -> None:
        """Ask the engine when nothing was typed for a moment; an empty prompt has no chips at once."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if not self._context.prompt.text.strip():
            self._removed.clear()
            self._show(queries.PromptContextAnswer())
        elif self._context.state.session_id:
            self._timer = self._context.screen.set_timer(CHIPS_WAIT, self._start)

    def _start(self) -> None:
        self._timer = None
        self._context.start(self._ask, group="chips", exclusive=True)

    async def _ask(self) -> None:
        prompt, state = self._context.prompt, self._context.state
        text = prompt.settled_text
        if text.startswith(("/", "!")) or (state.takes_commands and not text.startswith(ASK_PREFIX)):
            text = ""
        answer = queries.PromptContextAnswer()
        if text.strip():
            question = queries.PromptContextQuery(text=text)
            answer = await self._context.query(question, queries.PromptContextAnswer) or answer
        if prompt.text.strip():
            if answer.items or answer.problems:
                await self._context.ensure_bar(ContextChips, "context")
            self._show(answer)

    def _show(self, answer: queries.PromptContextAnswer) -> None:
        self._found = answer
        if isinstance(row := self._context.find_bar("context"), ContextChips):
            items = [context_item for context_item in answer.items if context_item.key not in self._removed]
            row.show(items, [problem for problem in answer.problems if problem.key not in self._removed])

    def focus(self) -> None:
        """Focus the row, if there is one."""
        if isinstance(row := self._context.find_bar("context"), ContextChips) and row.display:
            self._context.screen.set_focus(row)

    def remove(self, key: str) -> None:
        """Leave a chip out of the prompt; behind the last one, the prompt has the focus again."""
        self._removed.add(key)
        self._show(self._found)

    def take_excluded(self) -> tuple[str, ...]:
        """Return the keys of what was removed, for the prompt that is being sent."""
        excluded_keys = tuple(sorted(self._removed))
        self._removed.clear()
        return excluded_keys

    def restore(self, excluded_keys: tuple[str, ...]) -> None:
        """Take over what was removed from a prompt that is given back."""
        self._removed.update(excluded_keys)
