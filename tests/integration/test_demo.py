from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from core import demo
from core.cli.arguments import parse
from core.cli.sessions import choose_session
from core.engine import Engine, EngineOptions
from core.errors import StateError
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.providers.scripted_provider import ScriptedProvider
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.chat.transcript import Greeting
from tui.dialogs.commits import CommitDialog
from tui.review.diff.view import DiffView

FIXED = "return (cents * rate + 50) // 100"


def outcome_of(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-m", "unittest"], cwd=project, capture_output=True, text=True, check=False
    )


def git(project: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=True).stdout


class Newcomer:
    """Somebody at the keyboard, who sees the screen's state and the files on disk."""

    def __init__(self, app: AgentApp, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def state(self):
        return self.app.main.state

    @property
    def project(self) -> Path:
        return Path(self.state.workspace)

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            await self.pilot.pause(0.01)
        await self.pilot.pause(0.05)

    async def press(self, key: str) -> None:
        await self.pilot.press(key)
        self.app.key_filter.keystrokes.flush()

    async def take_suggestion(self, text: str) -> None:
        await self.until(lambda: self.state.suggestion and self.state.suggestion.text == text)
        await self.pilot.press("enter")
        await self.until(lambda: self.state.suggestion is None or self.state.suggestion.text != text)

    @property
    def turns(self) -> int:
        return sum(block.kind == "turn_end" for block in self.state.transcript.blocks)

    async def turn_over(self, turns: int) -> None:
        await self.until(lambda: self.turns >= turns)


async def test_a_newcomer_does_the_whole_job_with_the_scripted_model(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_TUI_SCRIPT_SPEED", "0")
    monkeypatch.setattr("tui.review.browser.GRACE", 0.0)
    monkeypatch.setattr("tui.ask.approval_bar.GRACE", 0.0)
    (tmp_path / "own.txt").write_text("mine")
    engine = Engine(tmp_path, options=EngineOptions(watch=False))

    async def connect() -> Engine:
        return engine

    app = AgentApp(connect, SessionRequest(demo=True))
    async with app.run_test(size=(120, 40)) as pilot:
        user = Newcomer(app, pilot)
        await user.until(lambda: user.app.main.query(Greeting) and user.app.main.query_one(Greeting).display)
        await user.take_suggestion("Why do the tests fail?")
        await user.until(lambda: not user.app.main.query_one(Greeting).display)
        await user.turn_over(1)
        assert user.state.is_demo
        assert user.state.mode == "ask"
        assert outcome_of(user.project).stderr.count("FAIL:") == 3
        await user.take_suggestion("Plan the smallest fixes.")
        await user.turn_over(2)
        assert [todo.dependencies for todo in user.state.todos][-1] == ("rounding", "steps", "merge")
        await user.take_suggestion("Build the plan.")
        await user.turn_over(3)
        assert sorted(user.state.changes) == ["till/basket.py", "till/discount.py", "till/money.py"]
        assert FIXED not in (user.project / "till/money.py").read_text()
        await review(user)
        await pilot.press("escape")
        await user.take_suggestion("Run the tests.")
        await user.until(lambda: user.state.approvals or user.turns == 4)
        if user.state.approvals:  # a machine without a strong box asks
            await pilot.press("f2", "y")
        await user.turn_over(4)
        assert [todo.status for todo in user.state.todos] == ["completed"] * 4, user.state.transcript.blocks[-6:]
        assert outcome_of(user.project).returncode == 0
        await commit(user)
        session, project = user.state.session_id, user.project
    await goes_on(session, project)
    assert [path.name for path in tmp_path.iterdir()] == ["own.txt"]


async def goes_on(session: str, project: Path) -> None:
    """Start with the line that is left on the terminal."""
    chosen = choose_session(parse(["--demo", "-c"]))
    assert (chosen.resume, chosen.directory) == (session, project)
    back = Engine(project, options=EngineOptions(watch=False))
    await back.submit(cmd.SessionResume(session=session))
    assert len(back.state(session).review.commits) == 1
    assert [todo.status for todo in back.state(session).todos] == ["completed"] * 4
    await back.close()


async def commit(user: Newcomer) -> None:
    """Follow the last words of the script: to the review, and there `c`."""
    await user.pilot.press("ctrl+r")
    view = user.app.main.query_one(DiffView)
    await user.until(lambda: view.has_focus and ("review.comment", "commit") in view.hints)
    await user.press("c")
    await user.until(lambda: isinstance(user.app.screen, CommitDialog) and user.app.screen.query("#draft-keys"))
    dialog = user.app.screen
    await user.until(dialog.grace_period.is_over)
    await user.pilot.press("ctrl+s")
    await user.until(lambda: user.state.review.commits and user.app.screen is user.app.main)
    await user.until(lambda: view.hints == (("review.undo", "undo"),))
    assert git(user.project, "log", "--format=%an %s").splitlines()[-1] == "agent-tui demo A small till"
    changed = git(user.project, "show", "--format=", "--name-only", "HEAD").splitlines()
    assert changed == ["till/basket.py", "till/discount.py", "till/money.py"]
    assert git(user.project, "status", "--porcelain", "--untracked-files=no") == ""


async def review(user: Newcomer) -> None:
    """Accept the three fixes, reject the changed docstring."""
    await user.pilot.press("ctrl+r")
    await user.until(lambda: user.app.main.query(DiffView))
    view = user.app.main.query_one(DiffView)
    docstring = user.state.changes["till/basket.py"].hunks[0].id
    while left := user.state.pending_hunk_count:
        await user.until(lambda: view.has_focus and view.diff and view.diff.change.path in user.state.changes)
        await user.until(lambda: view.current >= 0)
        hunk = view.diff.change.hunks[view.current].id
        key = "r" if hunk == docstring else "a"
        await user.press(key)  # once: a second stroke would judge the next hunk
        await user.until(lambda left=left: user.state.pending_hunk_count < left)
    assert FIXED in (user.project / "till/money.py").read_text()
    assert "one line per item" not in (user.project / "till/basket.py").read_text()


async def test_a_demo_goes_on_in_its_own_project_after_the_engine_was_lost(tmp_path):
    first = Engine(tmp_path, options=EngineOptions(watch=False))
    opened = await first.submit(cmd.SessionOpen(demo=True))
    copy = Path(first.state(opened.session).workspace)
    await first.submit(cmd.TurnSubmit(session=opened.session, text="Why do the tests fail?"))
    await first.wait_idle(opened.session)
    await first.close()
    chosen = choose_session(parse(["--demo", "-c"]))
    assert (chosen.resume, chosen.directory) == (opened.session, copy)
    second = Engine(tmp_path, options=EngineOptions(watch=False))
    resumed = await second.submit(cmd.SessionResume(session=opened.session))
    assert isinstance(resumed, cmd.Ack)
    assert Path(second.state(opened.session).workspace) == copy
    await second.close()


def test_every_demo_has_a_fresh_copy_and_old_ones_go(isolated):
    copies = [demo.create_project() for _ in range(demo.MAX_PROJECTS + 2)]
    assert len(set(copies)) == demo.MAX_PROJECTS + 2
    assert [copy.is_dir() for copy in copies] == [False] * 2 + [True] * demo.MAX_PROJECTS
    assert (copies[-1] / "till" / "money.py").is_file()


def test_the_sample_is_a_clean_repository_with_one_commit_whatever_the_user_has_set(isolated, monkeypatch):
    (isolated / ".gitconfig").write_text(
        "[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n\tautocrlf = true\n"
    )
    monkeypatch.setenv("HOME", str(isolated))
    project = demo.create_project()
    assert git(project, "log", "--format=%s").splitlines() == ["A small till"]
    assert git(project, "symbolic-ref", "--short", "HEAD").strip() == "main"
    assert git(project, "status", "--porcelain") == ""


def test_without_git_the_demo_has_a_plain_directory(isolated, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    project = demo.create_project()
    assert (project / "till" / "money.py").is_file()
    assert not (project / ".git").exists()


def test_a_state_directory_that_is_a_file_is_named(monkeypatch, tmp_path):
    (tmp_path / "state").write_text("")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(StateError, match="sample project"):
        demo.create_project()


def test_the_script_of_the_demo_is_sound_and_offers_its_first_prompt():
    provider = ScriptedProvider.from_file(demo.build_model_id().partition("/")[2])
    offer = provider.suggest(())
    assert offer is not None
    assert (offer.text, offer.mode) == ("Why do the tests fail?", "ask")


async def test_going_back_to_before_the_plan_of_the_demo_leaves_no_plan(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_TUI_SCRIPT_SPEED", "0")
    engine = Engine(tmp_path, options=EngineOptions(watch=False))

    async def connect() -> Engine:
        return engine

    app = AgentApp(connect, SessionRequest(demo=True))
    async with app.run_test(size=(120, 40)) as pilot:
        user = Newcomer(app, pilot)
        await user.take_suggestion("Why do the tests fail?")
        await user.turn_over(1)
        await user.take_suggestion("Plan the smallest fixes.")
        await user.turn_over(2)
        plans = user.project / ".cursor/plans"
        assert len(list(plans.iterdir())) == 1
        session = user.state.session_id
        checkpoints = await engine.query(q.CheckpointsQuery(session=session))
        await engine.submit(cmd.CheckpointRestore(session=session, id=checkpoints.checkpoints[-1].id, what="both"))
        await user.until(lambda: not list(plans.iterdir()))
        await user.until(lambda: user.state.current_plan is None and not user.state.todos)
