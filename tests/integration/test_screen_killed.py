from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
from pathlib import Path

from benchmarks.terminal import Terminal
from core.sessions.store import SessionStore
from tests.support.folded import fold_events
from tests.support.session_log import scan

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AGENT_TUI_KILLS", "4"))  # one in each part of a turn; more of them take long
PROMPT = "Do it"
SCRIPT = """
turns:
  - repeat: true
    steps:
      - text: First I look.
        tool_calls: [{name: read_file, arguments: {target_file: a.txt}}]
      - tool_calls:
          - {name: search_replace, arguments: {file_path: a.txt, old_string: two, new_string: TWO}}
          - {name: write, arguments: {file_path: new.txt, contents: "fresh\\n"}}
          - name: todo_write
            arguments: {merge: false, todos: [{id: one, content: Look at it, status: in_progress}]}
      - The edits wait for the review.
"""


def started(project: Path, script: Path) -> Terminal:
    argv = [sys.executable, str(ROOT / "agent_tui.py"), str(project), "--model", f"scripted/{script}"]
    return Terminal(argv, columns=100, rows=30, cwd=project, env={**os.environ, "AGENT_TUI_SCRIPT_SPEED": "0"})


def engine_of(screen: Terminal) -> int | None:
    """A descriptor of the engine's process, if there is one."""
    with contextlib.suppress(ProcessLookupError):
        return next((os.pidfd_open(child.pid) for child in screen.process.children()), None)
    return None


def killed_at(project: Path, script: Path, size: int) -> None:
    """Start, send a prompt, and kill the screen once its log has that size, or the turn has ended."""
    sessions = SessionStore(project).sessions_path
    known = set(sessions.iterdir()) if sessions.is_dir() else set()

    def reached(screen: Terminal) -> bool:
        logs = [path / "log.jsonl" for path in (sessions.iterdir() if sessions.is_dir() else ()) if path not in known]
        return b"steps" in screen.output[-6_000:] or any(log.is_file() and log.stat().st_size >= size for log in logs)

    with started(project, script) as screen:
        screen.wait_for(b"Ask for a change")
        screen.write(f"{PROMPT}\r".encode())
        with contextlib.suppress(TimeoutError):
            screen.wait_for(reached, limit=5)
        engine = engine_of(screen)
        screen.signal(signal.SIGKILL)
        assert engine is None or has_ended(engine)


def has_ended(engine: int) -> bool:
    """Whether a process ends within ten seconds; its descriptor is readable from then on."""
    ready, _, _ = select.select([engine], [], [], 10)
    os.close(engine)
    return bool(ready)


def test_d1_the_screen_is_killed_at_any_moment_and_its_engine_ends_cleanly(tmp_path):
    project, script = tmp_path / "project", tmp_path / "script.yaml"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    script.write_text(SCRIPT)
    chance = random.Random(7)
    for size in [1 + int((part + chance.random()) * 9_000 / KILLS) for part in range(KILLS)]:
        killed_at(project, script, size)
        assert sorted(path.name for path in project.iterdir()) == ["a.txt"]
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
    turns = 0
    for path in SessionStore(project).list_directories():
        log_scan = scan(path / "log.jsonl")
        assert log_scan.whole
        state = fold_events(log_scan.envelopes)
        assert state.current_turn is None
        assert set(state.changes) <= {"a.txt", "new.txt"}
        turns += len(state.turns)
    assert turns >= KILLS * 0.6
