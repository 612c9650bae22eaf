from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from benchmarks.terminal import PATIENCE, Terminal
from core.agent.debug.debug_policy import remove_marks
from core.debug.probe_records import decode_records, format_record
from core.debug.probe_regions import REGION_NAME
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.sessions.store import SessionStore
from core.shadow.content.blob_store import BlobStore
from core.state.debugging import DebugState
from core.user_dirs import get_config_dir, get_state_dir
from tests.support.debugging import (
    COMPARE,
    FIX,
    MENDED,
    MENDED_SHOP,
    PROBES,
    RACE,
    RACE_VERDICTS,
    REPRODUCE,
    RUN,
    SHOP_PROBE,
    SHOW_RACE,
    SUPPOSED,
    VERDICTS,
    project,
    shop,
)
from tests.support.folded import fold_events
from tests.support.program import PROGRAM
from tests.support.session_log import scan
from tui.ask.question_bar import GRACE

Calls = list[tuple[str, dict]]


def reads(path: str) -> tuple[str, dict]:
    return "read_file", {"target_file": path}


DONE = [COMPARE], [("probe_remove", {})]
SEARCH: list[Calls] = [
    [("hypotheses_set", SUPPOSED), reads("prices.py")],
    list(PROBES),
    [REPRODUCE],
    list(VERDICTS),
    [FIX],
]
RACED: list[Calls] = [[("hypotheses_set", RACE), reads("shop.js")], [SHOP_PROBE], [SHOW_RACE], list(RACE_VERDICTS)]
RACED += [[("write", {"file_path": "shop.js", "contents": MENDED_SHOP})], [SHOW_RACE], *DONE]
F6, QUIT = b"\x1b[17~", b"\x11"
HANG: Calls = [("reproduce", {"command": f"{RUN}; sleep 300"})]


def script(path: Path, *steps: Calls) -> str:
    played = [{"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in step]} for step in steps]
    path.write_text(json.dumps([*played, "That was the cause."]))
    return f"scripted/{path}"


def committed(root: Path, make: Callable[[Path], Path]) -> Path:
    """A project that is a git repository; what commands do there is held, so they run unasked."""
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text('[commands]\npolicy = "auto"\n')
    where = make(root / "project")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "First"]):
        subprocess.run([*git, *words], cwd=where, check=True, capture_output=True)
    return where


def started(where: Path, model: str) -> Terminal:
    argv = [*PROGRAM, str(where), "--trust", "--mode", "debug", "--model", model]
    screen = Terminal(argv, columns=120, rows=40, cwd=where, env={**os.environ, "AGENT_TUI_SCRIPT_SPEED": "0"})
    screen.wait_for(b"Describe the bug")
    screen.write(b"It is wrong\r")
    return screen


def marked(where: Path) -> list[str]:
    """What git finds in the project, new files too, and what is in the state of all sessions."""
    result = subprocess.run(
        ["git", "grep", "--untracked", "--no-exclude-standard", "-l", f"region {REGION_NAME}"],
        cwd=where, capture_output=True, text=True, check=False,
    )  # fmt: skip
    files = [path for path in get_state_dir().rglob("*") if path.is_file() and not path.is_symlink()]
    return [
        *result.stdout.split(),
        *(str(path) for path in files if f"region {REGION_NAME}".encode() in path.read_bytes()),
    ]


def kill(processes: list[psutil.Process]) -> None:
    """All at once; until each of them has ended."""
    descriptors = []
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            descriptors.append(os.pidfd_open(process.pid))
            os.kill(process.pid, signal.SIGKILL)
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], PATIENCE)[0]
        os.close(descriptor)


def debugged(directory: Path) -> DebugState:
    return fold_events(scan(directory / "log.jsonl").envelopes).debug


def press_until(screen: Terminal, key: bytes, seen: bytes) -> None:
    """Press a key until it has had its effect: a card takes none for a moment, which is longer on a busy machine."""
    for _ in range(24):
        screen.write(key)
        with contextlib.suppress(TimeoutError):
            screen.wait_for(seen, limit=5.0)
            return
    raise TimeoutError(f"{key!r} did not lead to {seen!r}")


@pytest.mark.parametrize(
    ("make", "steps", "file", "mended", "verdicts"),
    [
        (project, [*SEARCH, [REPRODUCE], *DONE], "prices.py", MENDED, ["confirmed", "rejected", "rejected"]),
        pytest.param(
            shop, RACED, "shop.js", MENDED_SHOP, ["confirmed", "rejected", "inconclusive"],
            marks=pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here"),
        ),
    ],
    ids=["a wrong cache key in Python", "a race in Node"],
)  # fmt: skip
def test_a_fault_is_debugged_on_the_screen_and_every_verdict_stands_in_the_log(
    tmp_path, make, steps, file, mended, verdicts
):
    where = committed(tmp_path, make)
    before = (where / file).read_text()
    with started(where, script(tmp_path / "script.yaml", *steps)) as screen:
        screen.wait_for(b"b Still broken")  # on the card: the bar numbers its options
        assert (where / file).read_text() == before
        screen.drain(GRACE + 0.1)
        press_until(screen, b"f", b"That was the cause.")  # the card of the board asks, and nobody else
        screen.send("/accept all")
        screen.wait_for(lambda _: (where / file).read_text() == mended)
        screen.write(F6)
        screen.wait_for(lambda _: b"no probes left" in screen.text())
        screen.write(QUIT)
        screen.wait_for(lambda _: not screen.process.is_running() or screen.process.status() == "zombie")
    directory = next(iter(SessionStore(where).list_directories()))
    debug, blobs = debugged(directory), BlobStore(directory / "blobs")
    logs = {
        name: [format_record(record) for record in decode_records(blobs.get(run.log))]
        for name, run in debug.runs.items()
    }
    assert [hypothesis.state for hypothesis in debug.hypotheses.values()] == verdicts
    cited = [evidence for hypothesis in debug.hypotheses.values() for evidence in hypothesis.evidence]
    assert len(cited) >= 3
    assert all(citation.text == logs[citation.run][citation.line - 1] for citation in cited)
    assert [(run.exit_code, run.after_fix) for run in debug.runs.values()] == [(1, False), (0, True)]
    assert (debug.fix_verdict.run, debug.fix_verdict.outcome) == ("r2", "fixed")
    assert (debug.probes, debug.needs_probe_check) == ({}, False)
    assert marked(where) == []


async def test_d1_screen_and_engine_are_killed_at_any_moment_and_no_probe_is_left_in_shadow_or_workspace(tmp_path):
    where = committed(tmp_path, project)
    moments = {"running": [*SEARCH, HANG], "asked": [*SEARCH, [REPRODUCE], *DONE], "shown": [*SEARCH[:2], HANG]}
    awaited = {"running": b"r2:", "asked": b"Mark as fixed", "shown": b"r1:"}
    for moment, steps in moments.items():
        with started(where, script(tmp_path / f"{moment}.yaml", *steps)) as screen:
            screen.wait_for(awaited[moment])
            kill([*screen.process.children(recursive=True), screen.process])
        assert (len(marked(where)) > 0) is (moment != "asked")
    engine = Engine(where, options=EngineOptions(watch=False))
    assert isinstance(await engine.submit(cmd.SessionOpen(model="", mode="agent")), cmd.Ack)
    assert marked(where) == []
    for directory in SessionStore(where).list_directories():
        if not debugged(directory).hypotheses:
            continue
        assert isinstance(await engine.submit(cmd.SessionResume(session=directory.name)), cmd.Ack)
        debug, shadow = engine.state(directory.name).debug, engine._find_session(directory.name).shadow
        assert (debug.probes, debug.reproduction, debug.needs_probe_check) == ({}, None, False)
        assert remove_marks(shadow, debug.probed_paths, includes_ignored=True).paths == ()
        assert b"2 probes were removed: the turn ended." in (directory / "log.jsonl").read_bytes()
        assert {path: shadow.read(path) for path in shadow.state.changes} in ({}, {"prices.py": MENDED.encode()})
    await engine.close()
    assert marked(where) == []
