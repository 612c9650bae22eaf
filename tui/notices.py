"""Notices of pending reviews: of other sessions, when one is opened, and on the terminal after the exit."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.protocol.queries import SessionInfo
from core.text.counting import count
from tui.state import ViewState
from tui.text import fit_line, format_path

MAKE_VARIABLE: Final = "AGENT_TUI_MAKE"  # set by the Makefile: the words that start the program by it


def format_exit_summary(state: ViewState, directory: Path, *, goes_on: bool = False) -> str:
    """Format up to four lines with their newlines; "" for an empty session, which is not stored.

    `directory` is the opened one, because a demo works in a copy. `goes_on`: the session is still open.
    """
    if goes_on:
        back = format_command_line(["attach", state.session_id])
        return f"Session detached, still running. Come back: {back}\n"
    waiting = state.pending_hunk_count
    if state.is_private:
        review = format_command_line(["review"])
        review_note = f" Review the kept changes: {review}"
        return f"Private: the conversation was not kept.{review_note if state.is_pending_kept else ''}\n"
    if not (state.turn_numbers or waiting):
        return ""
    if state.loss:
        return f"{fit_line(state.loss[:1].upper() + state.loss[1:], 600)} It can't be resumed.\n"
    lines = [f"Resume: {fit_line(format_way_back(state, directory), 400)}"]
    lines.append(f"This session, any time: {fit_line(format_way_back(state, directory, state.session_id), 400)}")
    if state.is_demo:
        lines.append(f"Demo project: {fit_line(state.workspace, 400)}")
    if waiting:
        lines.append(f"{count('hunk', waiting)} to review.")
    return "".join(f"{line}\n" for line in lines)


def _is_current_directory(directory: Path) -> bool:
    try:
        return directory.samefile(Path.cwd())
    except OSError:  # one of them was removed
        return False


def format_way_back(state: ViewState, directory: Path, session: str = "") -> str:
    """Format the shell command that resumes a session, "" = the latest one, of `directory` or of the demo. The
    command ends its line, so that it is easy to copy. A demo's session is resumed by its id alone, from any
    directory."""
    if state.is_demo:
        return format_command_line(["--resume", session] if session else ["--demo", "-c"])
    directory_arguments = [] if _is_current_directory(directory) else [str(directory)]
    return format_command_line([*directory_arguments, *(["--resume", session] if session else ["-c"])])


def format_command_line(arguments: Sequence[str]) -> str:
    """Format the line for a shell that starts this program once more, in the way in which it was started."""
    words, program = shlex.join(arguments), Path(sys.argv[0])
    if program.name in {"", "-c", "-m"}:  # another program has imported this one
        program = Path("agent-tui")
    if program.suffix != ".py":
        return f"{shlex.quote(_find_name(program))} {words}"
    if start := os.environ.get(MAKE_VARIABLE, ""):
        is_plain = not set(words) & set('"$`\\!')
        return f'{start} ARGS="{words}"' if is_plain else f"{start} ARGS={shlex.quote(words.replace('$', '$$'))}"
    return f"{shlex.join([_find_name(Path(sys.executable)), str(program)])} {words}"


def _find_name(program: Path) -> str:
    """Return the name of a program if the shell finds this very file by it, else its path."""
    import shutil

    installed_path = shutil.which(program.name)
    try:
        return program.name if installed_path and program.samefile(installed_path) else str(program)
    except OSError:
        return str(program)


def describe_part(above: str) -> str:
    """Explain that the project is a part of the repository `above`, and how to open all of it; "" = it is no part."""
    if not above:
        return ""
    line = format_command_line([above])
    return f"This is part of the repository {format_path(above, 80)}. To open all of it: {line}"


def format_pending_notice(sessions: Sequence[SessionInfo], current: str) -> str:
    """Format one sentence about pending reviews; "" = none. Sessions open in another window are left out."""
    waiting = [session for session in sessions if session.pending and session.id != current and not session.locked]
    if not waiting:
        return ""
    files = count("file", sum(session.pending for session in waiting))
    if len(waiting) > 1:
        return f"{files} to review in {len(waiting)} other sessions: /sessions lists them."
    title = fit_line(waiting[0].title, 40)
    return f"{files} to review in {f'“{title}”' if title else 'another session'}: /resume {waiting[0].id}"
