"""The question before a session is left whose turn or background commands would end."""

from __future__ import annotations

from textual.content import Content

from tui.background_commands import describe_running
from tui.dialogs.pages import ConfirmDialog
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.state import ViewState


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
    running_jobs = describe_running(state.jobs.values())
    can_detach = not state.is_private
    if state.is_running:
        question = "A turn is running. Stop it and quit?"
        return QuitDialog(question, "stop and quit", explanation=running_jobs, can_detach=can_detach)
    return QuitDialog(running_jobs, "quit", can_detach=can_detach) if running_jobs else None


def build_switch_question(state: ViewState) -> ConfirmDialog | None:
    """Build the question before another session is opened in this window; None: no background command would end."""
    running_jobs = describe_running(state.jobs.values(), "Leaving this session")
    return ConfirmDialog(running_jobs, "leave it") if running_jobs and state.client_count < 2 else None
