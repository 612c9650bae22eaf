"""`/init`: the agent writes AGENTS.md for review, from what is known of the project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.engine.turns.project_survey import parse_init
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import UserMessage
from tests.support.agent_case import calls, says
from tests.support.open_session import read_until, session_in, submit
from tests.support.story import access, project_at

WRITE = calls(("write", {"file_path": "AGENTS.md", "contents": "# Shop\n\nRun `make test`.\n"}))
MAKEFILE = "VERSION := 1\n\nall: build\n\ntest: build ## run it\n\tpytest\n\n.PHONY: test\n"
PACKAGE = {"scripts": {"lint": "eslint .", "dev": "vite --host"}, "dependencies": {"vite": "1"}}
PYPROJECT = '[project]\nname = "shop"\n[project.scripts]\nshop = "shop:main"\n[tool.ruff]\n[tool.pytest.ini_options]\n'


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    (root / "AGENTS.md").unlink(missing_ok=True)
    return root


def fill(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


async def ask(engine, session, text="/init"):
    after = engine.state(session).seq
    await submit(engine, cmd.TurnSubmit(session=session, text=text))
    await read_until(engine, session, ev.TurnFinished, after=after)
    messages = engine.state(session).messages
    return next(
        message.content
        for message in reversed(messages)
        if isinstance(message, UserMessage) and message.origin == "user"
    )


async def test_the_file_waits_for_review_and_the_log_has_what_was_typed(project):
    async with session_in(project, access((WRITE, says("Done.")))) as (engine, session):
        assert "Write `AGENTS.md` at the top of this project" in await ask(engine, session, "/init mind the tests")
        state = engine.state(session)
        assert list(state.changes) == ["AGENTS.md"]
        assert not (project / "AGENTS.md").exists()
        events = await read_until(engine, session, ev.TurnStarted)
        assert events[-1].prompt == "/init mind the tests"


async def test_the_model_is_told_commands_files_others_instructions_and_the_wish(project):
    fill(
        project,
        {
            "Makefile": MAKEFILE,
            "package.json": json.dumps(PACKAGE),
            "pyproject.toml": PYPROJECT,
            "CONTRIBUTING.md": "…",
            ".github/workflows/ci.yml": "on: push",
            ".github/copilot-instructions.md": "Be brief.",
            "CLAUDE.md": "Claude.",
            ".env": "KEY=hunter2",
        },
    )
    async with session_in(project, access((says("Done."),))) as (engine, session):
        prompt = await ask(engine, session, "/init mind the tests")
    assert "The user's wishes: mind the tests" in prompt
    assert "Makefile: all, test\n" in prompt
    assert "package.json: lint (eslint .), dev (vite --host)\n" in prompt
    assert "pyproject.toml: scripts: shop, tools: ruff pytest\n" in prompt
    assert "CONTRIBUTING.md\n" in prompt
    assert ".github/workflows/ci.yml" in prompt
    assert "Other tools' instructions are here: CLAUDE.md, .github/copilot-instructions.md." in prompt
    assert "<files_by_language>\n" in prompt, "an index that is being built is waited for"
    assert "hunter2" not in prompt
    assert ".env" not in prompt.partition("<survey>")[2]


async def test_what_it_writes_next_improves_what_waits(project):
    async with session_in(project, access((WRITE, says("Done."), says("Fine.")))) as (engine, session):
        await ask(engine, session)
        assert "Improve `AGENTS.md`" in await ask(engine, session)


async def test_files_that_can_not_be_read_or_parsed_are_left_to_the_agent(project):
    fill(project, {"package.json": "{", "pyproject.toml": "[[", "Makefile": "\x00\xff:\n"})
    (project / "justfile").mkdir()
    async with session_in(project, access((says("Done."),))) as (engine, session):
        prompt = await ask(engine, session)
    assert "package.json:" not in prompt
    assert "pyproject.toml:" not in prompt


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_where_nothing_is_written_it_is_refused_with_the_way_out(project, mode):
    async with session_in(project, access((says("Done."),)), opening=cmd.SessionOpen(mode=mode)) as (engine, session):
        reply = await engine.submit(cmd.TurnSubmit(session=session, text="/init"))
        assert isinstance(reply, cmd.Reject)
        assert (reply.code, reply.hint) == ("mode_refused", "Switch with /mode agent.")
        assert not engine.state(session).messages


@pytest.mark.parametrize(
    ("prompt", "wish"),
    [
        ("/init", ""),
        (" /init \n", ""),
        ("/init mind\nthe tests", "mind\nthe tests"),
        ("/initial", None),
        ("run /init", None),
        ("", None),
    ],
)
def test_only_the_command_itself_is_one(prompt, wish):
    assert parse_init(prompt) == wish
