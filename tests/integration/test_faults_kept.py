"""An unexpected fault leaves its trace in the state directory and nowhere on a screen."""

from __future__ import annotations

import stat
import traceback
from pathlib import Path

import pytest
from textual.worker import WorkerFailed

from core import crash_reports as faults
from core.engine.session.tasks import explain_fault
from core.protocol import events as ev
from core.secrets import MASK
from core.user_dirs import get_state_dir
from tests.support import recorded
from tests.support.agent_case import Case, calls, says
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest

KEY = "sk-planted-0123456789abcdef"


def kept() -> list[Path]:
    return sorted((get_state_dir() / faults.FOLDER).glob("*"))


def broken(*_: object, **__: object) -> None:
    raise KeyError(f"nobody expected {KEY}")


def test_n16e_a_fault_of_the_engine_is_kept_for_its_user_alone_without_keys():
    try:
        broken()
    except KeyError as fault:
        error = explain_fault(fault)
    [path] = kept()
    text = path.read_text()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert "in broken" in text
    assert MASK in text
    assert KEY not in text + error.format_with_hint()
    assert str(path) in error.hint


def test_n16e_the_oldest_faults_go():
    for number in range(faults.MAX_REPORTS + 5):
        faults.save_crash_report(ValueError(f"fault {number}"), "a test")
    assert len(kept()) == faults.MAX_REPORTS
    assert f"fault {faults.MAX_REPORTS + 4}" in "".join(path.read_text() for path in kept())


def test_n16e_what_can_not_be_kept_hides_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "file" / "below"))
    assert faults.save_crash_report(ValueError("x"), "a test") == ""
    assert explain_fault(ValueError("x")).message == "internal error: ValueError: x"


async def test_n16e_a_fault_in_a_turn_is_named_in_its_message(tmp_path, monkeypatch):
    case = Case(tmp_path, says("Hello."))
    monkeypatch.setattr("core.agent.context.reminders.Reminders.append_news", broken)
    finished = await case.turn()
    [path] = kept()
    assert finished.reason == "failed"
    assert str(path) in case.of(ev.ErrorRaised)[0].hint
    assert "in broken" in path.read_text()


async def test_n16e_a_fault_in_a_tool_is_kept_and_the_turn_goes_on(tmp_path, monkeypatch):
    case = Case(tmp_path, calls(("list_dir", {})), says("I see."))
    monkeypatch.setattr("core.tools.builtin.reading.list_files.ListDir.run", broken)
    assert (await case.turn()).reason == "done"
    [path] = kept()
    assert path.name in case.results()[0]
    assert "in broken" in path.read_text()


async def break_worker() -> None:
    broken()


@pytest.mark.parametrize(
    "fail",
    [lambda app: app.call_later(broken), lambda app: app.run_worker(break_worker())],
    ids=["a callback", "a worker"],
)
async def test_n16e_a_fault_of_the_screen_is_kept_and_no_trace_is_shown(capsys, fail):
    errors: list[BaseException] = []

    def keep(fault: BaseException) -> str:
        errors.append(fault)
        return "It is kept."

    async def connect() -> ScriptedClient:
        return ScriptedClient(recorded.opening())

    app = AgentApp(connect, SessionRequest(model="m"))
    app.save_fault = keep

    async def failing() -> None:
        async with app.run_test() as pilot:
            fail(app)
            await pilot.pause()

    with pytest.raises((KeyError, WorkerFailed)):
        await failing()
    assert [type(fault) for fault in errors] == [KeyError]
    assert "in broken" in "".join(traceback.format_exception(errors[0]))
    out, err = capsys.readouterr()
    assert "The session is saved: agent-tui -c It is kept." in " ".join(err.split())
    assert "Traceback" not in out + err
    assert KEY not in out + err
