"""A command that is run again with a grant: it does what it would have done if the grant had been there at first."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.integration.test_permissions import asked, command, engine_of, results, turn
from tests.support.agent_case import says
from tests.support.configured import configured
from tests.support.open_session import read_until
from tests.support.story import project_at

FETCH = (
    "exec 3<>/dev/tcp/127.0.0.1/3128 && "
    "printf 'GET http://example.test:{port}/ HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3 | tail -1 | grep -o hello"
)
AFTER = (
    'pwd; echo "<$SEEN><$START>"; find . -name .git -prune -o -print | sort | xargs ls -dn --time-style=+; '
    "find . -name .git -prune -o -type f -print | sort | xargs cat"
)
# Each leaves something behind in its first run that would change what the second one does.
COMMANDS = (
    "cd docs && {fetch}",
    "cd docs && {fetch} > answer.txt",
    "mkdir deep && cd deep && {fetch} > answer.txt",
    "echo more >> a.txt; {fetch}",
    "rm docs/page.txt && {fetch} > got.txt",
    "mv docs pages; {fetch} && ls",
    'export SEEN="$SEEN+"; {fetch}',
    "unset START; {fetch}",
    "[ -e mark ] && rm a.txt; touch mark; {fetch}",
    "chmod 755 a.txt; ln -s a.txt link; {fetch}",
    "git init -q . 2>/dev/null; {fetch}",
    "cd docs; export SEEN=$PWD; {fetch} && cd ..",
    "rm -rf docs; mkdir docs; cd docs; {fetch}; echo new > page.txt",
)


@pytest.fixture
def project(tmp_path) -> Path:
    configured("")
    return project_at(tmp_path / "project")


def _fill(project: Path) -> None:
    (project / "docs").mkdir()
    (project / "docs" / "page.txt").write_text("page\n")


async def _describe(project: Path, text: str, *answers: ev.ApprovalDecision) -> tuple[list[str], str, str]:
    """The kinds of the questions, what the command printed and did in the end, and what a command after it sees."""
    async with engine_of(project, command(text), command(AFTER), says("ok")) as (engine, session):
        seen = await turn(engine, session, *answers)
        first, after = results(engine, session)
        state = engine.state(session)
        kinds = [request.kind for request in asked(seen)]
        pending = sorted((path, str(change.pending)) for path, change in state.changes.items())
        lines = [line for line in first.splitlines() if not line.startswith(("exit code", "[Run again"))]
        shell = (state.shell.directory, sorted(state.shell.environment.items()), sorted(state.shell.removed))
        return kinds, f"{lines}\n{pending}\n{shell}", after.split("\n", 1)[1]


@pytest.mark.parametrize("text", COMMANDS)
async def test_n35_a_run_with_a_grant_leaves_what_it_would_have_left_with_the_grant_at_first(
    tmp_path,
    project,
    outside,
    monkeypatch,
    text,
):
    monkeypatch.setenv("START", "set")
    _fill(project)
    whole = text.format(fetch=FETCH.format(port=outside.port))
    kinds, done, after = await _describe(project, whole, "allow_once")
    assert kinds == ["network"]
    configured('[permissions]\nallow = ["WebFetch(example.test)"]\n')
    assert await _describe(project, whole) == ([], done, after)
    assert "hello" in done + after


async def test_n35_nothing_of_the_first_run_is_shown_or_kept_while_the_user_is_asked(project, outside):
    _fill(project)
    text = f"cd docs; echo x > made.txt; {FETCH.format(port=outside.port)}"
    async with engine_of(project, command(text), says("ok")) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        async with contextlib.aclosing(engine.events(session, after=before)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.ApprovalRequested):
                    request = envelope.event
                    break
        assert (request.kind, request.directory) == ("network", ".")
        assert engine.state(session).changes == {}
        answer = cmd.ApprovalAnswer(session=session, id=request.id, decision="reject_once")
        assert isinstance(await engine.submit(answer), cmd.Ack)
        await read_until(engine, session, ev.TurnFinished)
        assert list(engine.state(session).changes) == ["docs/made.txt"]
        assert engine.state(session).shell.directory == "docs"
        assert "which was not allowed." in results(engine, session)[0]


async def test_n35_a_question_that_is_called_off_leaves_what_the_command_did(project, outside):
    _fill(project)
    text = f"cd docs; echo x > made.txt; {FETCH.format(port=outside.port)}"
    async with engine_of(project, command(text), says("ok")) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        async with contextlib.aclosing(engine.events(session, after=before)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.ApprovalRequested):
                    await engine.submit(cmd.TurnInterrupt(session=session))
                if isinstance(envelope.event, ev.TurnFinished):
                    break
        await engine.wait_idle(session)
        assert list(engine.state(session).changes) == ["docs/made.txt"]
        assert "It had already finished when it was cancelled" in results(engine, session)[0]


async def test_n35_a_yes_does_not_run_the_command_in_another_directory_than_it_showed(project, outside):
    _fill(project)
    text = f"echo x >> made.txt; {FETCH.format(port=outside.port)}"
    async with engine_of(project, command(text), says("ok")) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        async with contextlib.aclosing(engine.events(session, after=before)) as stream:
            async for envelope in stream:
                match envelope.event:
                    case ev.ApprovalRequested(id=request):
                        await engine.submit(cmd.CommandRun(session=session, command="cd docs"))
                    case ev.CommandRan():
                        await engine.submit(cmd.ApprovalAnswer(session=session, id=request, decision="allow_once"))
                    case ev.TurnFinished():
                        break
        assert list(engine.state(session).changes) == ["made.txt"]
        assert "It was not run again" in results(engine, session)[0]
        assert outside.heard == b""
