"""What `deny = ["Write(…)"]` names is written by no door: verdicts, `-p`, the command line, the policy."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli import review
from core.cli.print_mode.headless import run_print
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.agent_case import calls, says
from tests.support.configured import configured
from tests.support.open_session import read_until, run_turn, session_in
from tests.support.story import access, project_at

RULE = '[permissions]\ndeny = ["Write(infra/**)"]\n'
SAYS = "may not be written: the rule deny Write(infra/**) of config.toml applies"
PATH = "infra/main.tf"
TEXT = "one\ntwo\nthree\n"


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    (root / "infra").mkdir()
    (root / PATH).write_text("a\n")
    return root


def story():
    """A command writes, for which no tool is refused; and a file that nothing denies."""
    command = f"cp a.txt {PATH}; cp a.txt fine.txt"
    return access([calls(("run_terminal_cmd", {"command": command})), says("Done.")])


async def test_n24_a_verdict_is_refused_with_the_rule_also_when_it_is_confirmed(project):
    configured(RULE)
    async with session_in(project, story()) as (engine, session):
        await run_turn(engine, session)
        for is_confirmed in (False, True):
            reply = await engine.submit(
                cmd.HunkResolve(session=session, path=PATH, verdict="accept", confirmed=is_confirmed)
            )
            assert isinstance(reply, cmd.Reject)
            assert SAYS in reply.message
        await engine.submit(cmd.HunkResolve(session=session, path="", verdict="accept"))
        notices = [
            notice.message for notice in await read_until(engine, session, ev.Notice) if isinstance(notice, ev.Notice)
        ]
        assert any(SAYS in message for message in notices)
        assert (project / PATH).read_text() == "a\n"
        assert (project / "fine.txt").read_text() == TEXT
        assert set(engine.state(session).changes) == {PATH}


async def test_n24_the_policy_that_accepts_by_itself_leaves_it(project):
    configured(f'{RULE}[edits]\npolicy = "auto"\n')
    async with session_in(project, story()) as (engine, session):
        await run_turn(engine, session)
        assert (project / "fine.txt").read_text() == TEXT
        assert engine.state(session).changes[PATH].is_denied
    assert (project / PATH).read_text() == "a\n"


def test_n24_without_a_screen_it_is_left_and_named(project, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
    configured(RULE)
    options = PrintArguments(directory=project, prompt="Do it", accept=("all",))
    assert run_print(options, models=story()) == ExitCode.REFUSED
    assert SAYS in capsys.readouterr().err
    assert (project / PATH).read_text() == "a\n"
    for paths in ((PATH,), ("all",)):
        arguments = review.ReviewArguments(directory=project, paths=paths, verdict="accept", print_only=True)
        assert review.run(arguments) != ExitCode.DONE
        output = capsys.readouterr()
        assert SAYS in output.out + output.err
    assert (project / PATH).read_text() == "a\n"


@pytest.mark.parametrize("command", ["mkdir infra/empty", "chmod 700 infra/sub"])
async def test_n24_no_directory_is_made_and_no_mode_changed_where_a_rule_denies_it(project, command):
    (project / "infra/sub").mkdir(mode=0o755)
    configured(RULE)
    async with session_in(project, access([calls(("run_terminal_cmd", {"command": command})), says("Done.")])) as (
        engine,
        session,
    ):
        await run_turn(engine, session)
        (bulk,) = engine.state(session).review.bulks
        assert SAYS in bulk.conflict
        await engine.submit(cmd.BulkResolve(session=session, root=bulk.root, verdict="accept"))
    assert not (project / "infra/empty").exists()
    assert (project / "infra/sub").stat().st_mode & 0o777 == 0o755
