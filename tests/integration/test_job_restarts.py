"""Restarts of background commands: by the user, and after edits in the tiers where a running command sees none."""

from __future__ import annotations

import asyncio

import pytest

from core.engine.commands.terminal import prepare_job_restart
from core.errors import CommandRejected
from core.protocol import commands as c
from core.protocol import events as ev
from core.sandbox.box import Tier
from core.shell import jobs as job_table
from tests.support.agent_case import Case, calls, says
from tests.support.box_tiers import offered
from tests.support.boxes import boxed, command, wait_for_output

BLIND = [tier for tier in offered() if tier in {Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED, Tier.BWRAP_COPY}]
blind = pytest.mark.parametrize("tier", BLIND)
GET = "python3 -c \"import urllib.request as u; print('GOT', u.urlopen('http://127.0.0.1:{}/page.html').read())\""


def start(command_line: str) -> tuple[str, dict[str, object]]:
    return "run_terminal_cmd", {"command": command_line, "is_background": True, "timeout": 0}


def serve(port: int, start_line: str = "true") -> tuple[str, dict[str, object]]:
    return start(f"{start_line}; exec python3 -u -m http.server {port} --bind 127.0.0.1 2>&1")


async def wait_for(case: Case, condition) -> None:
    """Wait until a condition holds, which is looked at after every event."""
    changed, take = asyncio.Event(), case.on_event

    def observe(event: ev.AnyEvent) -> None:
        take(event)
        changed.set()

    case.on_event = observe
    async with asyncio.timeout(60):
        while not condition():
            changed.clear()
            await changed.wait()
    case.on_event = take


def listens(case: Case, *ports: int):
    return lambda: {port.port for port in case.state.ports if port.is_listening} >= {*ports}


def restarted(case: Case, count: int):
    return lambda: len(case.of(ev.JobRestarted)) == count


async def test_a_restarted_job_sees_the_project_as_it_is_and_its_output_goes_on(tmp_path):
    async with boxed(tmp_path, calls(start("cat a.txt; read go; echo late; read go")), says(".")) as case:
        (case.project / "a.txt").write_text("old\n")
        await case.turn()
        jobs = case.session.terminal.jobs
        jobs.send("job_1", "go\n")
        await wait_for_output(case, "late")
        case.shadow.write("a.txt", b"new\n")
        await jobs.restart("job_1")
        await wait_for_output(case, "new")
        report = await jobs.read("job_1", 0)
        assert report.output.endswith("late\n[restarted]\nnew\n")
        assert [job.id for job in jobs.running_jobs] == ["job_1"]
        assert case.of(ev.JobEnded) == []
        await jobs.end("job_1")
        assert [event.id for event in case.of(ev.JobEnded)] == ["job_1"]


@blind
async def test_a_server_that_sees_no_edits_restarts_before_the_next_command_and_is_listening_then(tmp_path, tier):
    steps = [
        calls(serve(8771)),
        says("."),
        calls(("read_file", {"target_file": "page.html"})),
        calls(("write", {"file_path": "page.html", "contents": "pending\n"})),
        calls(("write", {"file_path": "other.html", "contents": "pending\n"})),
        command(GET.format(8771)),
        says("."),
    ]
    async with boxed(tmp_path, *steps, tier=tier) as case:
        (case.project / "page.html").write_text("project\n")
        await case.turn()
        await wait_for(case, listens(case, 8771))
        await case.turn()
        assert "GOT b'pending\\n'" in case.results()[-1]
        assert [event.changed for event in case.of(ev.JobRestarted)] == [2]
        assert "[restarted: 2 later changes of the project]" in (await case.session.terminal.jobs.read("job_1")).output


@blind
async def test_a_server_restarts_when_the_project_is_quiet_and_two_that_log_their_start_come_to_rest(
    tmp_path, tier, monkeypatch
):
    monkeypatch.setattr(job_table, "QUIET_SECONDS", 0.05)
    steps = [calls(serve(8772, "date +%s%N >> one.log"), serve(8773, "date +%s%N >> two.log")), says(".")]
    async with boxed(tmp_path, *steps, tier=tier) as case:
        (case.project / "page.html").write_text("project\n")
        await case.turn()
        await wait_for(case, listens(case, 8772, 8773))
        jobs = case.session.terminal.jobs
        for text in (b"one\n", b"two\n"):
            case.shadow.write("page.html", text)
            jobs.update_views_soon()
        await wait_for(case, restarted(case, 2))
        assert {event.id for event in case.of(ev.JobRestarted)} == {"job_1", "job_2"}
        await jobs.update_views()
        assert restarted(case, 2)()
        assert [jobs.get_job(name).execution.missed_count for name in ("job_1", "job_2")] == [0, 0]
        assert {"one.log", "two.log", "page.html"} == set(case.state.changes)


@blind
async def test_another_job_restarts_after_edits_once_the_user_says_so(tmp_path, tier):
    async with boxed(tmp_path, calls(start("cat a.txt; read go")), says("."), tier=tier) as case:
        (case.project / "a.txt").write_text("old\n")
        await case.turn()
        jobs = case.session.terminal.jobs
        case.shadow.write("a.txt", b"new\n")
        await jobs.update_views()
        assert jobs.get_job("job_1").execution.missed_count == 1
        assert case.of(ev.JobRestarted) == []
        jobs.set_restarts_on_edit("job_1", is_on=True)
        await wait_for(case, restarted(case, 1))
        await wait_for_output(case, "new")
        jobs.set_restarts_on_edit("job_1", is_on=False)
        case.shadow.write("a.txt", b"newer\n")
        await jobs.update_views()
        assert restarted(case, 1)()


async def test_a_job_that_is_stopped_while_it_restarts_ends(tmp_path):
    async with boxed(tmp_path, calls(start("trap '' TERM; echo ready; read go")), says(".")) as case:
        await case.turn()
        await wait_for_output(case, "ready")
        jobs = case.session.terminal.jobs
        await asyncio.gather(jobs.restart("job_1"), jobs.end("job_1"))
        assert jobs.running_jobs == []
        assert [event.ended for event in case.of(ev.JobEnded)] == ["stopped"]


async def test_a_job_that_can_not_be_started_again_ends_with_the_reason(tmp_path):
    async with boxed(tmp_path, calls(start("read go")), says(".")) as case:
        await case.turn()
        jobs = case.session.terminal.jobs
        case.project.rename(tmp_path / "moved")
        await jobs.restart("job_1")
        assert jobs.running_jobs == []
        assert [event.ended for event in case.of(ev.JobEnded)] == ["lost"]
        assert case.of(ev.ErrorRaised)[-1].message
        (tmp_path / "moved").rename(case.project)


async def test_the_interpreter_that_the_session_talks_with_is_not_restarted(tmp_path):
    async with boxed(tmp_path, calls(("run_python", {"code": "x = 1"})), says(".")) as case:
        await case.turn()
        with pytest.raises(CommandRejected, match="can only be stopped"):
            prepare_job_restart(case.session, c.JobRestart(session="ses_1", job="job_1"))
