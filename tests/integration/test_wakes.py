"""Turns that no prompt begins: the end of a background command wakes the agent, and loops send their prompt again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from core.arguments import PrintArguments
from core.cli.arguments import parse
from core.cli.print_mode.headless import run_print
from core.engine.commands import loops
from core.errors import ConfigError
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.transports.engine_host import share_engine
from core.transports.http.access import Grant
from core.transports.http.session_routes import find_needed_grant
from tests.support.agent_case import DirectedModel, Step, calls, says
from tests.support.boxes import command
from tests.support.default_model import access_to
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import MODEL, project_at

ASK = (
    "ask_question",
    {
        "questions": [
            {"id": "a", "prompt": "Which one?", "options": [{"id": "x", "label": "X"}, {"id": "y", "label": "Y"}]}
        ]
    },
)
JOB = command("read line; echo got $line", is_background=True, timeout=0)


@asynccontextmanager
async def woken(tmp_path, *steps: Step, **options):
    """An engine around a model whose commands run in the real box."""
    model = DirectedModel(steps)
    async with session_in(
        project_at(tmp_path / "project"), access_to(lambda *_: (model, "story"), MODEL), **options
    ) as (engine, session):
        yield engine, session, model


def end_job(engine, session: str, name: str = "job_1") -> None:
    engine._sessions[session].terminal.jobs.send(name, "it\n")


async def rest(engine, session: str) -> None:
    """Wait until nothing is to be done, and a turn that was begun thereby has ended."""
    await engine.wait_idle(session)
    await engine._sessions[session].turn_slot.wait_free()


async def read_turn(engine, session: str, after: int) -> list:
    """The events of the next turn after an event."""
    events = await read_until(engine, session, ev.TurnFinished, after=after)
    await engine.wait_idle(session)
    return events


def list_texts(request) -> list[str]:
    return [str(message.content) for message in request.messages]


async def test_the_end_of_a_background_command_wakes_the_agent_and_tells_it_what_it_printed(tmp_path):
    async with woken(tmp_path, JOB, says("It runs."), says("It has ended.")) as (engine, session, model):
        await run_turn(engine, session)
        before = engine.state(session).seq
        end_job(engine, session)
        events = await read_turn(engine, session, before)
        started = next(event for event in events if isinstance(event, ev.TurnStarted))
        assert (started.cause, started.prompt) == ("job", "job_1 ended: read line; echo got $line")
        reminder, news = list_texts(model.requests[-1])[-2:]
        assert "The program goes on by itself, because a background command of yours has ended" in reminder
        assert "<user_query>" not in reminder
        assert "exit code 0" in news
        assert "Its last lines:\ngot it" in news
        assert engine.state(session).unreported_commands == {}
        assert [entry.cause for entry in engine.state(session).turns] == ["prompt", "job"]


async def test_a_command_that_ends_while_the_agent_writes_its_last_answer_wakes_it_after_that(tmp_path):
    ended = asyncio.Event()
    slow = [*says("It runs.")[:1], ended, *says("")[1:]]
    async with woken(tmp_path, JOB, slow, says("It has ended.")) as (engine, session, model):
        before = engine.state(session).seq
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Do it")), cmd.Ack)
        await read_until(engine, session, ev.StepStarted, after=before)
        first = await read_until(engine, session, ev.StepFinished, after=before)
        await read_until(engine, session, ev.StepStarted, after=before + len(first))
        end_job(engine, session)
        await read_until(engine, session, ev.JobEnded, after=before)
        ended.set()
        first = await read_until(engine, session, ev.TurnFinished, after=before)
        await read_turn(engine, session, before + len(first) + 1)
        assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("setting", "last"),
    [("wake = false", says("It runs.")), ("wake = true", calls(ASK))],
)
async def test_nothing_wakes_it_where_that_is_off_or_a_question_is_open(tmp_path, monkeypatch, setting, last):
    home = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    (home / "agent-tui").mkdir(parents=True)
    (home / "agent-tui" / "config.toml").write_text(f"[commands]\n{setting}\n")
    async with woken(tmp_path, JOB, last, interactive=True) as (engine, session, model):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="Do it"))
        kind = ev.TurnFinished if "false" in setting else ev.QuestionAsked
        await read_until(engine, session, kind, after=before)
        end_job(engine, session)
        await read_until(engine, session, ev.JobEnded, after=before)
        await (rest(engine, session) if kind is ev.TurnFinished else engine.wait_idle(session))
        assert len(model.requests) == 2
        assert list(engine.state(session).unreported_commands) == ["job_1"]


async def test_nothing_wakes_it_for_a_client_that_shows_no_such_turn(tmp_path):
    async with woken(tmp_path, JOB, says("It runs."), wakes=False) as (engine, session, model):
        await run_turn(engine, session)
        before = engine.state(session).seq
        end_job(engine, session)
        await read_until(engine, session, ev.JobEnded, after=before)
        await rest(engine, session)
        assert len(model.requests) == 2


async def test_after_five_turns_in_a_row_the_next_one_waits_for_the_user(tmp_path):
    steps = [step for _ in range(6) for step in (JOB, says("It runs."))]
    async with woken(tmp_path, *steps) as (engine, session, model):
        await run_turn(engine, session)
        for number in range(1, 6):
            before = engine.state(session).seq
            end_job(engine, session, f"job_{number}")
            await read_turn(engine, session, before)
        before = engine.state(session).seq
        end_job(engine, session, "job_6")
        await read_until(engine, session, ev.JobEnded, after=before)
        await rest(engine, session)
        assert len(engine.state(session).turns) == 6
        assert len(model.requests) == 12


async def test_a_command_that_the_user_stops_wakes_nobody(tmp_path):
    async with woken(tmp_path, JOB, says("It runs.")) as (engine, session, model):
        await run_turn(engine, session)
        before = engine.state(session).seq
        await submit(engine, cmd.JobStop(session=session))
        await read_until(engine, session, ev.JobEnded, after=before)
        await rest(engine, session)
        assert len(model.requests) == 2


@pytest.mark.parametrize("mode", ["agent", "plan", "ask", "debug"])
async def test_a_command_that_fails_wakes_the_agent_once_in_each_mode(tmp_path, mode):
    failing = command("read line; exit 3", is_background=True, timeout=0)
    opening = cmd.SessionOpen(mode=mode)
    answers = [says(text) for text in ("It runs.", *(["No plan is needed."] if mode == "plan" else []), "It failed.")]
    async with woken(tmp_path, failing, *answers, opening=opening) as (engine, session, model):
        await run_turn(engine, session)
        before = engine.state(session).seq
        end_job(engine, session)
        await read_turn(engine, session, before)
        await rest(engine, session)
        await rest(engine, session)  # what the end of the turn began
        assert [(entry.cause, entry.mode) for entry in engine.state(session).turns] == [("prompt", mode), ("job", mode)]
        assert "exit code 3" in list_texts(model.requests[-1])[-1]
        assert len(model.requests) == 1 + len(answers)


async def test_commands_that_end_at_once_wake_the_agent_once(tmp_path):
    job = ("run_terminal_cmd", {"command": "read line", "is_background": True, "timeout": 0})
    both = calls(job, job)
    async with woken(tmp_path, both, says("They run."), says("Both have ended.")) as (engine, session, _):
        await run_turn(engine, session)
        before = engine.state(session).seq
        end_job(engine, session)
        end_job(engine, session, "job_2")
        seen = []
        while sum(isinstance(event, ev.JobEnded) for event in seen) < 2 or not isinstance(seen[-1], ev.TurnFinished):
            seen += await read_until(engine, session, ev.TurnFinished, after=before + len(seen))
        wakes = [entry.prompt for entry in engine.state(session).turns if entry.cause == "job"]
        assert wakes
        assert all("\n".join(wakes).count(f"{name} ended") <= 1 for name in ("job_1", "job_2"))


async def test_where_the_user_types_the_commands_nothing_wakes_the_agent(tmp_path):
    async with woken(tmp_path, JOB, says("It runs.")) as (engine, session, model):
        await run_turn(engine, session)
        await submit(engine, cmd.PolicySet(session=session, policy="human"))
        before = engine.state(session).seq
        end_job(engine, session)
        await read_until(engine, session, ev.JobEnded, after=before)
        await rest(engine, session)
        assert len(model.requests) == 2


async def test_a_command_that_ends_while_something_else_has_the_turn_leaves_that_to_be_stopped(tmp_path):
    async with woken(tmp_path, JOB, says("It runs."), says("It has ended.")) as (engine, session, _):
        await run_turn(engine, session)
        slot = engine._sessions[session].turn_slot
        await slot.wait_free()
        async with slot.reserve():
            slot.start(asyncio.Event().wait())  # as a compaction, which is no turn of the conversation
        before = engine.state(session).seq
        end_job(engine, session)
        await read_until(engine, session, ev.JobEnded, after=before)
        await submit(engine, cmd.TurnInterrupt(session=session))
        await read_turn(engine, session, before)
        assert [entry.cause for entry in engine.state(session).turns] == ["prompt", "job"]


async def test_a_detached_session_keeps_its_command_and_goes_on_when_that_ends(tmp_path):
    async with woken(tmp_path, JOB, says("It runs."), says("It has ended.")) as (engine, session, _):
        screen = share_engine(engine)
        assert isinstance(await screen.submit(cmd.SessionResume(session=session)), cmd.Ack)
        await run_turn(engine, session)
        assert isinstance(await screen.submit(cmd.SessionDetach(session=session)), cmd.Ack)
        assert list(engine.state(session).jobs) == ["job_1"]
        before = engine.state(session).seq
        end_job(engine, session)
        await read_turn(engine, session, before)
        assert [entry.cause for entry in engine.state(session).turns] == ["prompt", "job"]
        await screen.close()


async def test_a_session_that_ends_its_command_closes_with_the_engine(tmp_path):
    async with woken(tmp_path, JOB, says("It runs.")) as (engine, session, model):
        await run_turn(engine, session)
        closed = engine._sessions[session]
        assert isinstance(await engine.submit(cmd.SessionClose(session=session)), cmd.Ack)
        await engine.close()
        assert [event.ended for event in closed.state.unreported_commands.values()] == ["stopped"]
        assert len(model.requests) == 2


async def test_a_session_that_was_closed_tells_what_its_command_printed(tmp_path):
    chatty = command("echo first; echo second; read line", is_background=True, timeout=1)
    async with woken(tmp_path, chatty, says("It runs.")) as (engine, session, _):
        await run_turn(engine, session)
    async with woken(tmp_path, says("I see.")) as (engine, _, model):
        await submit(engine, cmd.SessionResume(session=session))
        await run_turn(engine, session)
        news = next(text for text in list_texts(model.requests[-1]) if "job_1 has ended" in text)
        assert "stopped" in news
        assert "Its last lines:\nfirst\nsecond" in news


# Loops


@pytest.fixture(autouse=True)
def _short_loops(monkeypatch):
    """Let a loop begin its next run at once."""
    monkeypatch.setattr(loops, "MIN_SECONDS", 0)


async def start_loop(engine, session: str, **fields) -> int:
    """Start a loop; returns the number of the event before it."""
    before = engine.state(session).seq
    defaults = {"text": "Check it", "seconds": 0}
    await submit(engine, cmd.LoopStart(session=session, **(defaults | fields)))
    return before


async def test_a_loop_sends_its_prompt_until_it_has_run_as_often_as_it_was_to(tmp_path):
    async with woken(tmp_path, says("One."), says("Two.")) as (engine, session, model):
        before = await start_loop(engine, session, runs=2)
        events = await read_until(engine, session, ev.LoopEnded, after=before)
        assert (events[-1].reason, len(model.requests)) == ("done", 2)
        assert [entry.cause for entry in engine.state(session).turns] == ["loop", "loop"]
        message = list_texts(model.requests[-1])[-1]
        assert "<user_query>\nCheck it\n</user_query>" in message
        assert "it is run 2 of at most 2" in message
        assert engine.state(session).loops == {}


async def test_a_loop_waits_for_the_turn_that_runs_and_for_an_answer(tmp_path):
    steps = (calls(ASK), says("Then so."), says("Checked."))
    async with woken(tmp_path, *steps, interactive=True) as (engine, session, model):
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="Do it"))
        asked = (await read_until(engine, session, ev.QuestionAsked, after=before))[-1]
        before = await start_loop(engine, session, runs=1)
        assert len(model.requests) == 1
        await submit(engine, cmd.QuestionReply(session=session, id=asked.id))
        await read_until(engine, session, ev.LoopEnded, after=before)
        assert [entry.cause for entry in engine.state(session).turns] == ["prompt", "loop"]
        assert len(model.requests) == 3


async def test_stopping_its_turn_stops_the_loop(tmp_path):
    blocked = [*says("One.")[:1], asyncio.Event()]
    async with woken(tmp_path, blocked) as (engine, session, model):
        before = await start_loop(engine, session)
        await read_until(engine, session, ev.DocumentDelta, after=before)
        await engine.submit(cmd.TurnInterrupt(session=session))
        events = await read_until(engine, session, ev.LoopEnded, after=before)
        assert (events[-1].reason, len(model.requests)) == ("stopped", 1)


async def test_a_loop_is_stopped_by_its_name_and_its_turn_goes_on(tmp_path):
    gate = asyncio.Event()
    async with woken(tmp_path, [*says("One.")[:1], gate, *says("")[1:]]) as (engine, session, _):
        before = await start_loop(engine, session)
        await read_until(engine, session, ev.DocumentDelta, after=before)
        await submit(engine, cmd.LoopStop(session=session, id="loop_1"))
        reply = await engine.submit(cmd.LoopStop(session=session))
        assert isinstance(reply, cmd.Reject)
        gate.set()
        events = await read_until(engine, session, ev.TurnFinished, after=before)
        assert events[-1].reason == "done"


async def test_a_loop_whose_turns_fail_ends_with_the_reason(tmp_path):
    async with woken(tmp_path, *([[RuntimeError("no")]] * 3)) as (engine, session, _):
        before = await start_loop(engine, session)
        event = (await read_until(engine, session, ev.LoopEnded, after=before))[-1]
        assert (event.reason, event.message) == ("failed", "3 turns in a row have failed.")


async def test_a_monitor_sends_the_prompt_when_the_command_prints_the_words(tmp_path):
    async with woken(tmp_path, says("Looked.")) as (engine, session, model):
        script = "echo quiet; echo ERROR one; echo ERROR two; touch left; read line"
        before = await start_loop(engine, session, command=script, pattern="ERROR", runs=1)
        await read_until(engine, session, ev.LoopEnded, after=before)
        message = list_texts(model.requests[0])[-1]
        assert f"`{script}` has printed" in message
        assert "ERROR one" in message
        assert "quiet\n" not in message.partition("has printed")[2]
        assert engine.state(session).changes == {}


async def test_lines_that_the_run_before_printed_as_well_are_no_news(tmp_path):
    status = project_at(tmp_path / "project") / "status"
    status.write_text("state 0\n")
    first = [lambda: status.write_text("state 1\n"), *says("Looked.")]
    async with woken(tmp_path, first, says("Looked.")) as (engine, session, model):
        before = await start_loop(engine, session, command="cat status", runs=2)
        await read_until(engine, session, ev.LoopEnded, after=before)
        printed = [list_texts(request)[-1].partition("has printed")[2] for request in model.requests]
        assert ["state 0" in printed[0], "state 0" in printed[1], "state 1" in printed[1]] == [True, False, True]


async def test_a_command_that_fails_without_such_a_line_is_told_once(tmp_path):
    async with woken(tmp_path) as (engine, session, model):
        before = await start_loop(engine, session, command="echo no such host; exit 6", pattern="done")
        notice = (await read_until(engine, session, ev.Notice, after=before))[-1]
        assert "`echo no such host; exit 6` ended (exit code 6) without such a line" in notice.message
        assert notice.hint == "no such host"
        assert model.requests == []


async def test_a_loop_ends_with_its_session_which_says_so(tmp_path):
    async with woken(tmp_path, says("One.")) as (engine, session, _):
        before = await start_loop(engine, session, seconds=3600)
        await read_turn(engine, session, before)
    async with woken(tmp_path) as (engine, _, _):
        await submit(engine, cmd.SessionResume(session=session))
        resumed = (await read_until(engine, session, ev.SessionResumed))[-1]
        assert "The loop (every hour) ended with the program." in resumed.repaired
        assert engine.state(session).loops == {}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"text": " "}, "empty_text"),
        ({"text": "x", "pattern": "x"}, "loop_invalid"),
        ({"text": "x", "seconds": 5}, "loop_invalid"),
        ({"text": "x", "seconds": 700_000}, "loop_invalid"),
    ],
)
async def test_a_loop_that_can_not_be_is_refused(tmp_path, monkeypatch, fields, code):
    async with woken(tmp_path) as (engine, session, _):
        monkeypatch.setattr(loops, "MIN_SECONDS", 10)
        reply = await engine.submit(cmd.LoopStart(**({"session": session, "seconds": 10} | fields)))
        assert isinstance(reply, cmd.Reject)
        assert reply.code == code


def test_a_command_that_is_watched_needs_the_right_to_approve():
    loop = cmd.LoopStart(session="s", text="Check it", seconds=10)
    assert find_needed_grant(loop) is Grant.DRIVE
    assert find_needed_grant(cmd.LoopStart(session="s", text="Check it", seconds=10, command="x")) is Grant.APPROVE


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    project = project_at(tmp_path / "project")

    def start(*steps: Step, **fields) -> tuple[ExitCode, DirectedModel, str]:
        model = DirectedModel(steps)
        arguments = PrintArguments(directory=project, **fields)
        code = run_print(arguments, models=access_to(lambda *_: (model, "story"), MODEL))
        return ExitCode(code), model, capsys.readouterr().out

    return start


def test_the_command_line_runs_a_loop_and_prints_every_answer(run):
    code, model, output = run(says("One."), prompt="Check it", loop=10, when="echo x", runs=1)
    assert (code, len(model.requests), output.split()) == (ExitCode.DONE, 1, ["One."])


def test_the_command_line_ends_with_its_turn_and_waits_for_no_background_command(run):
    code, model, output = run(JOB, says("It runs."), says("It has ended."), prompt="Do it")
    assert (code, len(model.requests), output.split()) == (ExitCode.DONE, 2, ["It", "runs."])


def test_the_prompt_begins_a_loop_by_its_first_word(run):
    code, model, _ = run(says("One."), prompt="/loop 10m Check it --runs 1")
    assert code is ExitCode.DONE
    assert "<user_query>\nCheck it\n</user_query>" in list_texts(model.requests[0])[-1]


def test_a_loop_without_an_interval_is_refused(run):
    with pytest.raises(ConfigError, match="a loop needs an interval and a prompt"):
        run(prompt="/loop Check it")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--when", "x"], "--when, --prints and --runs need --loop"),
        (["--loop", "10m", "--prints", "x"], "--prints needs --when"),
        (["--loop", "1s"], "'1s' is not a time from 10s to 7d"),
        (["--loop", "1h", "--goal", "x"], "--loop can't be combined with"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words, capsys):
    with pytest.raises(SystemExit) as refused:
        parse(["-p", "x", *options])
    assert refused.value.code == ExitCode.USAGE
    assert words in capsys.readouterr().err
