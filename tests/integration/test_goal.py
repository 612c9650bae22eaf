"""Goals: a turn goes on until a check of the program says that the condition holds."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from core.arguments import PrintArguments
from core.cli.arguments import parse
from core.cli.print_mode.headless import run_print
from core.errors import ConfigError
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.transports.http.access import Grant
from core.transports.http.session_routes import find_needed_grant
from tests.support.agent_case import DirectedModel, Step, calls, says
from tests.support.boxes import boxed, command
from tests.support.default_model import access_to
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import MODEL, project_at

TEST = "import unittest, a\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(a.x, 2)\n"
WRITE = calls(
    ("write", {"file_path": "a.py", "contents": "x = 1\n"}), ("write", {"file_path": "test_a.py", "contents": TEST})
)
EDIT = calls(("search_replace", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}))
CHECK = "python3 -m unittest test_a"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    project = project_at(tmp_path / "project")

    def start(*steps: Step, **fields) -> tuple[ExitCode, DirectedModel, dict]:
        model = DirectedModel(steps)
        defaults = {"directory": project, "prompt": "Make x two", "output_format": "json", "goal": "x is two"}
        code = run_print(PrintArguments(**(defaults | fields)), models=access_to(lambda *_: (model, "story"), MODEL))
        return ExitCode(code), model, json.loads(capsys.readouterr().out)

    return start


def list_prompts(model: DirectedModel) -> list[str]:
    return [str(request.messages[-1].content) for request in model.requests]


def test_the_turn_goes_on_until_the_command_passes_over_the_changes(run):
    code, model, response = run(WRITE, says("Done, I think."), EDIT, says("Now."), check=CHECK)
    assert code is ExitCode.DONE
    prompts = list_prompts(model)
    assert "Your goal, until the user drops it: x is two" in prompts[0]
    assert "The goal is not met yet (round 1 of 10): x is two" in prompts[2]
    assert f"The program ran `{CHECK}` over your changes: `{CHECK}`: 1 failed." in prompts[2]
    assert "AssertionError: 1 != 2" in prompts[2]
    assert len(model.requests) == 4
    assert response["metadata"]["stopReason"] == "done"


def test_a_round_in_which_nothing_moves_ends_the_goal_with_what_was_tried(run):
    code, model, _ = run(WRITE, says("One."), says("Two."), says("Three."), check="grep 'x = 3' a.py")
    assert code is ExitCode.FAILED
    assert len(model.requests) == 3


def test_times_and_counters_in_a_failure_are_no_movement(run):
    check = "echo took $(date +%N) ms at 0x$RANDOM; exit 1"
    assert run(says("One."), says("Two."), says("Three."), check=check)[0] is ExitCode.FAILED


@pytest.mark.parametrize(("exit_zero", "code"), [(False, ExitCode.LIMIT), (True, ExitCode.DONE)])
def test_the_limit_of_rounds_is_a_limit(run, exit_zero, code):
    reached, model, _ = run(WRITE, says("One."), EDIT, check="false", rounds=1, exit_zero=exit_zero)
    assert (reached, len(model.requests)) == (code, 2)


def test_a_check_that_runs_no_test_is_not_passed(run):
    check = "python3 -m unittest nothing_here; echo 'Ran 0 tests in 0.1s'; echo OK"
    code, model, _ = run(says("One."), says("Two."), check=check)
    assert code is ExitCode.FAILED
    assert len(model.requests) == 2


def test_without_a_command_a_model_judges_that_sees_the_changes_alone(run):
    code, model, _ = run(
        WRITE,
        says("I promise it is two."),
        says("UNMET: x is 1.\nIt has to be 2."),
        EDIT,
        says("Now."),
        says("MET: x is 2."),
    )
    assert code is ExitCode.DONE
    judged = str(model.requests[2].messages)
    assert "+x = 1" in judged
    assert "x is two" in judged
    assert "I promise" not in judged
    assert model.requests[2].tools == ()
    assert "The judgement: x is 1." in list_prompts(model)[3]


def test_a_judge_without_a_verdict_meets_nothing(run):
    code, _, _ = run(says("One."), says("It looks fine to me."), says("Two."), says("It looks fine to me."))
    assert code is ExitCode.FAILED


def test_the_prompt_sets_a_goal_by_its_first_word(run):
    text = f"/goal x is two --check {CHECK} --rounds 3"
    code, model, _ = run(WRITE, says("One."), EDIT, says("Two."), prompt=text, goal="")
    assert code is ExitCode.DONE
    assert "<user_query>\nx is two\n</user_query>" in list_prompts(model)[0]
    assert "--check" not in list_prompts(model)[0]
    assert "(round 1 of 3)" in list_prompts(model)[2]


@pytest.mark.parametrize("text", ["/goal", "/goal --check true"])
def test_a_goal_without_a_condition_is_refused(run, text):
    with pytest.raises(ConfigError, match="a goal needs a condition"):
        run(prompt=text, goal="")


async def test_the_words_of_a_prompt_set_no_goal_for_a_client_that_may_run_no_command(tmp_path):
    async with boxed(tmp_path, says("Yes.")) as case:
        await case.turn("/goal it works --check touch x")
        assert case.of(ev.GoalSet) == []
    submit_text = cmd.TurnSubmit(session="s", text="Do it", goal="it works")
    assert find_needed_grant(submit_text) is Grant.DRIVE
    assert find_needed_grant(replace(submit_text, check="touch x")) is Grant.APPROVE


@pytest.mark.parametrize("options", [["--check", "true"], ["--rounds", "3"], ["--goal", "x", "--best", "2"]])
def test_options_that_do_not_fit_are_refused(options, capsys):
    with pytest.raises(SystemExit) as refused:
        parse(["-p", "x", *options])
    assert refused.value.code == ExitCode.USAGE
    assert "--goal" in capsys.readouterr().err


async def test_the_check_sees_the_shadow_and_leaves_nothing_in_it(tmp_path):
    steps = [command("mkdir -p build && echo gen > build/out; cd build; export MODE=wrong"), says("Done.")]
    async with boxed(tmp_path, *steps) as case:
        check = 'test -f build/out && test -z "$MODE" && touch left && pwd'
        case.emit(ev.GoalSet(condition="it is built", check=check))
        assert (await case.turn()).reason == "done"
        assert [(event.round, event.outcome) for event in case.of(ev.GoalChecked)] == [(1, "met")]
        assert case.of(ev.GoalEnded)[0].reason == "met"
        assert "left" not in case.state.changes
        assert case.shadow.stat("left") is None


async def test_an_answer_that_asks_the_user_ends_the_turn_and_the_goal_waits(tmp_path):
    async with boxed(tmp_path, says("Which of the two?"), says("Fine.")) as case:
        case.emit(ev.GoalSet(condition="it is chosen", check="true"))
        await case.turn()
        assert case.of(ev.GoalChecked) == []
        await case.turn("The first")
        assert case.of(ev.GoalEnded)[0].reason == "met"


async def test_the_user_can_stop_a_goal_that_waits(tmp_path):
    project = project_at(tmp_path / "project")
    model = DirectedModel([says("Which one?")])
    async with session_in(project, access_to(lambda *_: (model, "story"), MODEL)) as (engine, session):
        await run_turn(engine, session, cmd.TurnSubmit(session=session, text="Work", goal="it works", check="true"))
        await submit(engine, cmd.GoalStop(session=session))
        events = await read_until(engine, session, ev.GoalEnded)
        assert events[-1].reason == "stopped"
        reply = await engine.submit(cmd.GoalStop(session=session))
        assert (type(reply), getattr(reply, "code", "")) == (cmd.Reject, "no_goal")


async def test_a_turn_that_is_stopped_ends_its_goal(tmp_path):
    project = project_at(tmp_path / "project")
    model = DirectedModel([calls(("run_terminal_cmd", {"command": "echo ready; exec sleep 600"}))])
    async with session_in(project, access_to(lambda *_: (model, "story"), MODEL)) as (engine, session):
        goal = cmd.TurnSubmit(session=session, text="Work", goal="it works", check="true")
        await engine.submit(goal)
        await read_until(engine, session, ev.ToolOutput)
        await submit(engine, cmd.TurnInterrupt(session=session))
        events = await read_until(engine, session, ev.GoalEnded)
        assert events[-1].reason == "stopped"
