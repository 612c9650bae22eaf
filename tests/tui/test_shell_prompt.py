from __future__ import annotations

import re

from core.engine.shared.box import build_box_event
from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol import queries
from core.sandbox.box import Tier
from tests.support import recorded
from tui.widgets.status_bar import StatusBar


async def test_an_exclamation_mark_runs_a_command_of_the_users(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("!", *"ls", "space", *"-a", "enter")
        await on.until(lambda: on.sent(c.CommandRun))
        assert [command.command for command in on.sent(c.CommandRun)] == ["ls -a"]
        assert on.sent(c.TurnSubmit) == []


async def test_a_lone_mark_is_a_prompt_like_any_other(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("!", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.CommandRun) == []


async def test_it_is_shown_while_it_runs_and_escape_stops_it(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(
            ev.DocumentStarted(id="doc_1", kind="terminal_command", sequence=0, title="make"),
            ev.ToolRequested(call="user_1", tool="user_command", arguments="{}", document="doc_1", summary="make"),
            ev.ToolOutput(call="user_1", text="compiling\n"),
        )
        assert any("compiling" in line for line in on.lines())
        assert re.search(r" command \d+ s", str(on.screen.query_one(StatusBar).render()))
        await on.pilot.press("escape")
        await on.until(lambda: on.sent(c.TurnInterrupt))
        metadata = d.TerminalCommandMetadata(
            command="make", exit_code=0, effects="changed: created a.o; pending review"
        )
        await on.emit(
            ev.DocumentFinished(document=d.TerminalCommandDocument(id="doc_1", sequence=0, metadata=metadata)),
            ev.ToolFinished(call="user_1", tool="user_command", status="completed"),
        )
        assert not on.screen.state.is_running_command
        assert " command " not in str(on.screen.query_one(StatusBar).render())


async def test_the_end_of_what_it_wrote_is_shown_unasked_and_enter_shows_all(stage):
    output = "".join(f"line {number}\n" for number in range(1, 51))
    metadata = d.TerminalCommandMetadata(command="seq 50", exit_code=0, output=output, tool_call_id="user_1")
    async with stage(recorded.opening(), size=(80, 60)) as on:
        await on.emit(
            ev.DocumentStarted(id="doc_1", kind="terminal_command", sequence=0, title="seq 50"),
            ev.ToolRequested(call="user_1", tool="user_command", arguments="{}", document="doc_1", summary="seq 50"),
            ev.DocumentFinished(document=d.TerminalCommandDocument(id="doc_1", sequence=0, metadata=metadata)),
            ev.ToolFinished(call="user_1", tool="user_command", status="completed"),
        )
        assert [line.strip() for line in on.lines() if "line" in line] == [
            "… 30 more lines (ctrl+↑, then enter)",
            *(f"line {number}" for number in range(31, 51)),
        ]
        await on.pilot.press("ctrl+up", "enter")
        assert sum("line" in line for line in on.lines()) == 50


async def test_the_status_names_the_box_and_counts_the_jobs(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(build_box_event(Tier.NAMESPACES), ev.JobStarted(id="job_1", call="c", command="serve"))
        status_text = str(on.screen.query_one(StatusBar).render())
        assert "sandboxed" in status_text
        assert "1 job" in status_text
        await on.emit(ev.JobEnded(id="job_1", command="serve", ended="exited", exit_code=0), build_box_event(Tier.NONE))
        status_text = str(on.screen.query_one(StatusBar).render())
        assert "not sandboxed" in status_text
        assert " job" not in status_text


async def test_a_job_is_stopped_by_its_name(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(ev.JobStarted(id="job_1", call="c", command="serve"))
        await on.screen.run_action("jobs.show_jobs('job_1')")
        await on.until(lambda: on.sent(c.JobStop))
        assert [command.job for command in on.sent(c.JobStop)] == ["job_1"]


async def test_a_command_for_the_machine_is_run_after_one_question_and_is_back_in_the_prompt_after_a_no(stage):
    async with stage(recorded.opening()) as on:
        on.client.answers[queries.MachinePlaceQuery] = queries.MachinePlaceAnswer(directory="/home/me/project")
        on.prompt.text = "!!make deploy"
        await on.pilot.press("enter")
        await on.asked()
        assert on.sent(c.CommandRun) == []
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.CommandRun))
        (sent,) = on.sent(c.CommandRun)
        assert (sent.command, sent.on_machine) == ("make deploy", True)
        on.prompt.text = "!!make clean"
        await on.pilot.press("enter")
        await on.asked()
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.text == "!!make clean")
        assert len(on.sent(c.CommandRun)) == 1


async def test_n31_the_question_names_the_directory_and_repositories_inside_the_project(stage):
    async with stage(recorded.opening()) as on:
        on.client.answers[queries.MachinePlaceQuery] = queries.MachinePlaceAnswer(
            directory="/home/me/project", repositories=("docs/ex", "vendor/odd\u202ename")
        )
        on.prompt.text = "!!git -C docs/ex status"
        await on.pilot.press("enter")
        await on.asked()
        about_text = str(on.app.screen.query_one(".dialog-about").render())
        assert "in /home/me/project" in about_text
        assert "! docs/ex, vendor/odd" in about_text
        assert "a separate repository inside the project" in about_text
        assert "\u202e" not in about_text


async def test_n31_without_a_place_nothing_is_asked_and_the_command_is_in_the_prompt_again(stage):
    async with stage(recorded.opening()) as on:
        on.client.answers[queries.MachinePlaceQuery] = queries.RefusedAnswer(message="no session", code="x")
        on.prompt.text = "!!make deploy"
        await on.pilot.press("enter")
        await on.until(lambda: on.prompt.text == "!!make deploy")
        assert on.sent(c.CommandRun) == []


async def test_n31_the_row_names_the_directory_that_the_command_ran_in(stage):
    run = d.TerminalCommandMetadata(
        command="git status", working_directory="/home/me/project", exit_code=0, permissions=("all",)
    )
    async with stage(recorded.opening()) as on:
        document = d.TerminalCommandDocument(id="doc_1", sequence=0, metadata=run)
        await on.emit(
            ev.DocumentStarted(id="doc_1", kind="terminal_command", sequence=0, title="git status"),
            ev.DocumentFinished(document=document),
        )
        assert any("on your machine in /home/me/project $ git status" in line for line in on.lines())
