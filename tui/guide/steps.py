"""The steps of the tour and the hints, in one table each. Words name keys by their ids, in braces.

A step is left by what it names: an action, or the beginning of what is written in the prompt. A hint is shown while it
`fits`, at most in MAX_SHOWN sessions, and never again once one of its actions was carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from core.protocol.documents import TerminalCommandDocument, TextDocument
from tui.key_table import KEYS
from tui.slash_commands import SLASH_COMMANDS
from tui.state import ViewState

MAX_SHOWN: Final = 3
DONE: Final = "done"
LONG_ANSWER: Final = 30  # lines of the last answer


class TourStep(NamedTuple):
    """`text`: what is shown, `{file}` being one of the project; `by`: ids of keys and `/words` that lead on; `typed`:
    so does a prompt that has this in it."""

    id: str
    text: str
    by: tuple[str, ...] = ()
    typed: str = ""


class GuideHint(NamedTuple):
    """`fits`: whether it says something now; `by`: ids of keys and `/words` which show that it is known."""

    id: str
    text: str
    by: tuple[str, ...]
    fits: Callable[[ViewState], bool]


TOUR: Final = (
    TourStep("file", "Type @ and letters of a name: @{file} goes along with what you ask.", typed="@"),
    TourStep("mode", "{app.mode_next}: Agent works, Plan plans, Ask only reads, Debug measures.", ("app.mode_next",)),
    TourStep(
        "review",
        "{app.review}: here waits what the agent changes. {review.accept} writes a hunk to your file, {review.reject} "
        "drops it, {review.undo} undoes. agent-tui --demo has some to try it on.",
        ("app.review",),
    ),
    TourStep("commands", "Type / for all commands: /commit commits what you accepted, and nothing else.", typed="/"),
    TourStep("help", "{app.keys} explains the place you are in, and lists all keys.", ("app.keys", "/keys", "/help")),
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
        "/queue shows what waits to be sent: edit, cancel, send now.",
        ("/queue",),
        lambda state: bool(state.pending_steers),
    ),
    GuideHint(
        "review",
        "{app.review} reviews what was changed; nothing is in your files before.",
        ("app.review",),
        lambda state: bool(state.changes) and not state.is_running,
    ),
    GuideHint(
        "commit",
        "/commit commits what you accepted, and nothing else.",
        ("/commit",),
        lambda state: not state.changes and state.can_commit,
    ),
    GuideHint(
        "failed",
        "{app.chat}, then {transcript.toggle} shows all that the command printed.",
        ("transcript.toggle",),
        _has_failed_command,
    ),
    GuideHint(
        "copy",
        "{app.chat}, then {transcript.copy} copies an answer; /copy the last one.",
        ("transcript.copy", "/copy"),
        _has_long_answer,
    ),
)


def leads_on(action: str, triggers: tuple[str, ...]) -> bool:
    """True if an action that is carried out is one of these keys or commands."""
    return any(action == trigger or action.startswith(f"{trigger}(") for trigger in map(_find_action, triggers))


def _find_action(name: str) -> str:
    if name.startswith("/"):
        return next(command.action for command in SLASH_COMMANDS if command.word == name[1:])
    return next(key.action for key in KEYS if key.id == name)
