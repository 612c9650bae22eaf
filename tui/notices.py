"""Notices of what waits for a review: in other sessions, when one is opened, and on the terminal after the exit."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from core.protocol.queries import SessionInfo
from tui.state import ViewState
from tui.text import fit_line


def format_exit_summary(state: ViewState, directory: Path, *, goes_on: bool = False) -> str:
    """Format up to three lines with their newlines; "" for a session in which nothing was done, since it is not kept.

    `directory` is the one that was opened; a demo works in a copy of its own. `goes_on`: the session is still open.
    """
    if goes_on:
        back = shlex.join([*_find_program_name(), "attach", state.session_id])
        return f"The session goes on without this screen. Come back: {back}\n"
    waiting = state.pending_hunk_count
    if state.is_private:
        kept = " What waits for your review is, without the conversation: agent-tui review"
        return f"Private: nothing of the conversation was kept.{kept if state.is_pending_kept else ''}\n"
    if not (state.turn_numbers or waiting):
        return ""
    if state.loss:
        return f"{fit_line(state.loss[:1].upper() + state.loss[1:], 600)} It can't be gone on with.\n"
    where = [] if _is_current_directory(directory) else [str(directory)]
    last = [*_find_program_name(), *(["--demo"] if state.is_demo else where), "-c"]
    lines = [f"Go on: {fit_line(shlex.join(last), 400)}   (this session: --resume {state.session_id})"]
    if state.is_demo:
        lines.append(f"The demo's project: {fit_line(state.workspace, 400)}")
    if waiting:
        lines.append(f"{waiting} {'hunk waits' if waiting == 1 else 'hunks wait'} for your review.")
    return "".join(f"{line}\n" for line in lines)


def _is_current_directory(directory: Path) -> bool:
    try:
        return directory.samefile(Path.cwd())
    except OSError:  # one of them was removed
        return False


def _find_program_name() -> list[str]:
    """Return the words that this program was called by, so that the line can be copied."""
    import shutil

    called = Path(sys.argv[0])
    if called.suffix == ".py":
        return [Path(sys.executable).name, str(called)]
    return [called.name] if shutil.which(called.name) else [str(called)]


def format_pending_notice(sessions: Sequence[SessionInfo], current: str) -> str:
    """Format one sentence that says where to look; "" = nothing waits. Sessions open in another window are left out."""
    waiting = [each for each in sessions if each.pending and each.id != current and not each.locked]
    if not waiting:
        return ""
    count = sum(each.pending for each in waiting)
    files = "1 changed file waits" if count == 1 else f"{count} changed files wait"
    if len(waiting) > 1:
        return f"{files} for your review in {len(waiting)} other sessions: /sessions shows them."
    title = fit_line(waiting[0].title, 40)
    return f"{files} for your review in {f'“{title}”' if title else 'another session'}: /resume {waiting[0].id}"
