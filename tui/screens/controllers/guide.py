"""The tour and the hints: their steps, and the controller that shows one above the prompt.

A step of the tour ends with one of its triggers: an action, or the beginning of a prompt. A hint is shown while it
`fits`, in at most `MAX_SHOWN` sessions, and never again after the use of one of its actions. Braces in texts hold ids
of keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from textual import on
from textual.widgets import Static

from core.protocol import commands, queries
from core.protocol.documents import TerminalCommandDocument, TextDocument
from tui.chat.prompt import Prompt
from tui.key_table import KEYS
from tui.keymap import format_first_key, get_keymap, insert_keys
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.slash_commands import SLASH_COMMANDS
from tui.state import ViewState
from tui.text import shorten_path, to_content

MAX_SHOWN: Final = 3
DONE: Final = "done"
LONG_ANSWER: Final = 30  # lines of the last answer
_FALLBACK = "README.md"


class TourStep(NamedTuple):
    """`text`: the displayed text, with `{file}` for a file of the project; `by`: ids of keys and `/words` that
    complete the step; `typed`: a part of a prompt that does so as well."""

    id: str
    text: str
    by: tuple[str, ...] = ()
    typed: str = ""


class GuideHint(NamedTuple):
    """`fits`: whether the hint applies now; `by`: ids of keys and `/words` whose use shows that the user knows it."""

    id: str
    text: str
    by: tuple[str, ...]
    fits: Callable[[ViewState], bool]


TOUR: Final = (
    TourStep("file", "Type @ and part of a name: @{file} is sent with your prompt.", typed="@"),
    TourStep(
        "mode", "{app.mode_next}: Agent edits, Plan plans, Ask only reads, Debug finds causes.", ("app.mode_next",)
    ),
    TourStep(
        "review",
        "{app.review} opens the agent's changes. {review.accept} writes a hunk to your file, {review.reject} "
        "drops it, {review.undo} undoes. Try it with agent-tui --demo.",
        ("app.review",),
    ),
    TourStep("commands", "Type / for all commands: /commit commits what you accepted, and nothing else.", typed="/"),
    TourStep("help", "{app.keys} explains where you are and lists all keys.", ("app.keys", "/keys", "/help")),
)


def _has_long_answer(state: ViewState) -> bool:
    answer = next((block for block in reversed(state.blocks) if block.kind == "text"), None)
    if state.is_running or answer is None or not isinstance(answer.document, TextDocument):
        return False
    return (answer.document.content or "").count("\n") >= LONG_ANSWER


def _has_failed_command(state: ViewState) -> bool:
    latest = next((block for block in reversed(state.blocks) if block.kind == "terminal_command"), None)
    document = latest.document if latest is not None else None
    return isinstance(document, TerminalCommandDocument) and bool(document.metadata.exit_code)


HINTS: Final = (
    GuideHint(
        "queue",
        "/queue shows queued messages: edit, cancel, send now.",
        ("/queue",),
        lambda state: bool(state.pending_steers),
    ),
    GuideHint(
        "review",
        "{app.review} to review. Your files are untouched until you accept.",
        ("app.review",),
        lambda state: bool(state.changes) and not state.is_running and not state.accepts_at_once,
    ),
    GuideHint(
        "commit",
        "/commit commits what you accepted, and nothing else.",
        ("/commit",),
        lambda state: not state.changes and state.can_commit,
    ),
    GuideHint(
        "failed",
        "{app.chat}, then {transcript.toggle} shows the command's full output.",
        ("transcript.toggle",),
        _has_failed_command,
    ),
    GuideHint(
        "copy",
        "{app.chat}, then {transcript.copy} copies an answer; /copy copies the last.",
        ("transcript.copy", "/copy"),
        _has_long_answer,
    ),
)


def completes_step(action: str, triggers: tuple[str, ...]) -> bool:
    """True if an action that is carried out is one of these keys or commands."""
    return any(action == trigger or action.startswith(f"{trigger}(") for trigger in map(_find_action, triggers))


def _find_action(name: str) -> str:
    if name.startswith("/"):
        return next(command.action for command in SLASH_COMMANDS if command.word == name[1:])
    return next(key.action for key in KEYS if key.id == name)


class GuideController(Controller):
    """Shows one line above the prompt: the step of the tour that is next, else the first hint that fits."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._is_loaded = False
        self._file = _FALLBACK
        self._step: TourStep | None = None
        self._shown: dict[str, int] = {}
        self._used: set[str] = set()
        self._counted: set[str] = set()  # hints of this session
        self.chosen: list[str] = []  # entries of the palette, the last one first
        self._line = ""

    @in_worker("guide")
    async def load(self) -> None:
        """Load the user's progress, once."""
        if self._is_loaded:
            return
        answer = await self.context.query(queries.GuideQuery(), queries.GuideAnswer)
        if answer is None:
            return
        self._is_loaded, self._shown, self._used = True, dict(answer.shown), set(answer.used)
        self.chosen += [entry for entry in answer.chosen if entry not in self.chosen]
        self._file = answer.file or _FALLBACK
        if answer.tour:
            self._step = next((step for step in TOUR if step.id == answer.tour), TOUR[0])
            self._save_step()
        self.update()

    def note_chosen(self, entry: str) -> None:
        """Record a choice in the palette, which comes first the next time."""
        self.chosen = [entry, *(previous_entry for previous_entry in self.chosen if previous_entry != entry)]
        self.context.submit_soon(commands.GuideKeep(chosen=entry))

    def action_begin(self, _: str = "") -> None:
        """Begin the tour, from its first step."""
        self._is_loaded, self._step = True, TOUR[0]
        self._save_step()
        self.update()

    def update(self) -> None:
        """Show the step or hint that applies now."""
        if self._is_loaded and (line := self._describe()) != self._line:
            self._line = line
            self._draw(line)

    @in_worker("guide line")
    async def _draw(self, line: str) -> None:
        bar = await self.context.ensure_bar(Static, "guide")
        bar.display = bool(line)
        bar.update(to_content(line))

    def note_action(self, action: str) -> None:
        """Note an action before it runs."""
        step = self._step
        if step is not None and action == "turn.interrupt":
            if self.context.prompt.has_focus and not self.context.state.is_running and not self.context.prompt.text:
                self._advance(None)
        elif step is not None and completes_step(action, step.by):
            self._advance(step)
        for hint in HINTS:
            if self._is_loaded and hint.id not in self._used and completes_step(action, hint.by):
                self._used.add(hint.id)
                self.context.submit_soon(commands.GuideKeep(used=hint.id))
                self.update()

    @on(Prompt.Changed)
    def _note_typing(self) -> None:
        step = self._step
        if step is not None and step.typed and step.typed in self.context.prompt.text:
            self._advance(step)

    def _advance(self, step: TourStep | None) -> None:
        """Move to the step after this one; None ends the tour."""
        position = TOUR.index(step) + 1 if step is not None else len(TOUR)
        self._step = TOUR[position] if position < len(TOUR) else None
        self._save_step()
        self.update()

    def _save_step(self) -> None:
        self.context.submit_soon(commands.GuideKeep(tour=self._step.id if self._step is not None else DONE))

    def _describe(self) -> str:
        state = self.context.state
        if state.approvals or state.awaited_question is not None:
            return ""  # a question takes precedence
        return self._describe_step(self._step) if self._step is not None else self._describe_hint()

    def _describe_step(self, step: TourStep) -> str:
        keymap = get_keymap(self.context.screen.app)
        text = insert_keys(step.text.replace("{file}", shorten_path(self._file, 40)), keymap)
        leave = format_first_key("app.interrupt", keymap)
        return f"Tour {TOUR.index(step) + 1}/{len(TOUR)} · {text} · {leave} to end"

    def _describe_hint(self) -> str:
        hint = self._find_hint()
        if hint is None:
            return ""
        if hint.id not in self._counted:
            self._counted.add(hint.id)
            self.context.submit_soon(commands.GuideKeep(shown=hint.id))
        return f"Hint · {insert_keys(hint.text, get_keymap(self.context.screen.app))}"

    def _find_hint(self) -> GuideHint | None:
        state = self.context.state
        excluded_ids = {hint_id for hint_id, times in self._shown.items() if times >= MAX_SHOWN} | self._used
        return next((hint for hint in HINTS if hint.id not in excluded_ids and hint.fits(state)), None)
