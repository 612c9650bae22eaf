"""The question before a session is left whose turn, commands or loops would end."""

from __future__ import annotations

from textual.content import Content

from tui.background_commands import MAX_COMMAND, describe_running
from tui.dialogs.pages import ConfirmDialog
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.state import ViewState
from tui.text import expose_line


class QuitDialog(ConfirmDialog):
    """Asks before the work of a session ends with the program. The key to detach leaves it running."""

    BINDINGS = get_bindings("app", names=("app.detach",))

    def __init__(self, question: str, yes: str, *, explanation: str = "", can_detach: bool = True) -> None:
        super().__init__(question, yes, explanation=explanation)
        self._can_detach = can_detach

    def format_keys(self) -> Content:
        keys = super().format_keys()
        if not self._can_detach:
            return keys
        detach = format_first_key("app.detach", get_keymap(self.app))
        return Content.assemble(keys, "   ", (detach, "$accent bold"), " leave it running")


def build_quit_question(state: ViewState) -> QuitDialog | None:
    """Build the question before the program ends what the session runs; None: nothing would end."""
    if state.client_count > 1:
        return None
    losses = _describe_losses(state, "Quit")
    can_detach = not state.is_private
    if state.is_running:
        question = "A turn is running. Stop it and quit?"
        return QuitDialog(question, "stop and quit", explanation=losses, can_detach=can_detach)
    return QuitDialog(losses, "quit", can_detach=can_detach) if losses else None


def build_switch_question(state: ViewState) -> ConfirmDialog | None:
    """Build the question before another session is opened in this window; None: nothing would end."""
    losses = _describe_losses(state, "Leaving this session")
    return ConfirmDialog(losses, "leave it") if losses and state.client_count < 2 else None


def _describe_losses(state: ViewState, leaving: str) -> str:
    """Describe what `leaving` would end besides a turn; "" = nothing."""
    sentences = [describe_running(state.jobs.values(), leaving)]
    if state.is_running_command:
        sentences.append(f"A command is still running. {leaving} stops it.")
    if len(state.loops) == 1:
        prompt = next(iter(state.loops.values())).loop.prompt
        sentences.append(f"The loop `{expose_line(prompt, MAX_COMMAND, is_strict=True)}` is active. {leaving} ends it.")
    elif state.loops:
        sentences.append(f"{len(state.loops)} loops are active. {leaving} ends them.")
    return " ".join(filter(None, sentences))
