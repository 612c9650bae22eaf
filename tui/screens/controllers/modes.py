"""The controller of the mode: it switches the mode and applies it to the status bar, the placeholder and the
colours."""

from __future__ import annotations

from textual import events, on
from textual.actions import SkipAction

from core.modes import Mode
from core.protocol import commands
from tui.chat.prompt import COMMAND_PLACEHOLDER, QUESTION_PLACEHOLDER, STEERING_PLACEHOLDER, TRANSCRIPT_PLACEHOLDER
from tui.chat.transcript import Transcript
from tui.dialogs.picker import PickerDialog, PickerOption
from tui.keymap import format_first_key, get_keymap
from tui.modes import SCREEN_MODES
from tui.screens.controller import Controller, ScreenContext
from tui.screens.controllers.questions import QuestionController
from tui.sessions.home import HomeList
from tui.text import fit_line
from tui.widgets.status_bar import StatusBar


class ModeController(Controller):
    """Shows the state of the session that is there at any time, and switches its mode."""

    def __init__(self, context: ScreenContext, questions: QuestionController) -> None:
        super().__init__(context)
        self._questions = questions
        self._note = "starting…"

    def show(self, note: str | None = None) -> None:
        """Show the state; `note` replaces the bar's text about the engine ("" = nothing)."""
        self._note = self._note if note is None else note
        context, screen = self.context, self.context.screen
        accent = SCREEN_MODES[context.mode].accent
        for name, mode in SCREEN_MODES.items():
            screen.set_class(name == context.mode, f"-mode-{name}")
            screen.set_class(mode.accent == accent, f"-accent-{mode.accent}")
        screen.query_one(StatusBar).show(context.state, self._note)
        context.prompt.takes_commands = context.state.takes_commands
        context.prompt.set_placeholder(self._choose_placeholder())

    def _choose_placeholder(self) -> str:
        state = self.context.state
        if self.context.transcript.has_focus:
            return TRANSCRIPT_PLACEHOLDER
        home = self.context.find_bar("home")
        if home is not None and home.has_focus:
            keymap = get_keymap(self.context.screen.app)
            return "   ".join(f"{format_first_key(key, keymap)} {word}" for key, word in HomeList.hints)
        if state.awaited_question:
            return QUESTION_PLACEHOLDER
        if state.is_running:
            return STEERING_PLACEHOLDER
        if state.takes_commands:
            return COMMAND_PLACEHOLDER
        return self._format_suggestion() or SCREEN_MODES[self.context.mode].placeholder

    def _format_suggestion(self) -> str:
        """Format the suggestion that Enter on the empty prompt sends; "" = there is none."""
        suggestion = self.context.state.suggestion
        if suggestion is None:
            return ""
        is_here = suggestion.mode == self.context.mode
        mode = "" if is_here else f" in {SCREEN_MODES[suggestion.mode].title} mode"
        return f"{fit_line(suggestion.text, 200)}   enter to send{mode}"

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _handle_focus(self, event: events.DescendantFocus | events.DescendantBlur) -> None:
        if isinstance(event.widget, Transcript | HomeList):
            self.show()

    # Switching

    def action_next_mode(self) -> None:
        """Switch to the next mode in turn; among the tabs of questions the key is theirs."""
        if self._questions.has_tabs_focused:
            raise SkipAction
        modes = list(Mode)
        self._set_mode(modes[(modes.index(Mode(self.context.mode)) + 1) % len(modes)].value)

    def action_choose_mode(self, mode: str = "") -> None:
        if mode in SCREEN_MODES:
            self._set_mode(mode)
            return
        options = [
            PickerOption(name, screen_mode.title, self._describe_mode(name))
            for name, screen_mode in SCREEN_MODES.items()
        ]
        self.context.show(PickerDialog("Mode", options, current=self.context.mode), self._set_mode)

    def _describe_mode(self, name: str) -> str:
        """Describe the purpose of a mode and, where commands may change something, the policy for them."""
        note, state = SCREEN_MODES[name].note, self.context.state
        if name != Mode.AGENT:
            return note
        if state.accepts_at_once:
            note = "edits are written to your files at once"
        if state.policy.policy == "human":
            return f"{note}, you type the commands"
        if state.policy.policy == "confirm" or (state.box is not None and not state.box.can_run_unasked):
            return f"{note}, commands ask first"
        if state.box is None or state.box.is_walled:
            return f"{note}, commands run sandboxed"
        return f"{note}, commands run {'on a copy' if state.box.is_contained else 'in the project itself'}"

    def _set_mode(self, mode: str | None) -> None:
        if mode is not None:
            self.context.submit_soon(commands.ModeSet(mode=mode))
