from __future__ import annotations

import asyncio

import pytest

from core.errors import ToolFailed
from core.protocol import events as ev
from core.sandbox.box import Tier
from tests.support.agent_case import Case, calls, says
from tests.support.boxes import boxed, command
from tests.support.history import faults

TEST_A = "import unittest\n\n\nclass TestA(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue(True)\n"


def pending(case: Case) -> dict[str, tuple[str, object]]:
    return {path: (change.operation, case.shadow.read(path)) for path, change in case.state.changes.items()}


async def test_s2_what_a_command_writes_is_pending_and_seen_by_the_next_tool_and_the_next_command(tmp_path):
    steps = [
        command("echo one > made; sed -i s/x/y/ a.py"),
        calls(("read_file", {"target_file": "made"})),
        command("cat made a.py"),
        says("Done."),
    ]
    async with boxed(tmp_path, *steps) as case:
        (case.project / "a.py").write_text("x = 1\n")
        assert (await case.turn()).reason == "done"
        assert "changed: edited a.py; created made; pending review" in case.results()[0]
        assert "1|one" in case.results()[1]
        assert "one\ny = 1" in case.results()[2]
        assert pending(case) == {"made": ("create", b"one\n"), "a.py": ("edit", b"y = 1\n")}
        assert case.tree() == {"a.py": b"x = 1\n"}
        assert case.state.changes["made"].origin.command == "echo one > made; sed -i s/x/y/ a.py"
        assert faults(case.messages) == []


async def test_a_command_sees_the_edits_that_are_pending(tmp_path):
    steps = [calls(("write", {"file_path": "m.py", "contents": "print(6 * 7)\n"})), command("python3 m.py"), says(".")]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        assert "exit code 0" in case.results()[1]
        assert "\n42\n" in case.results()[1]
        assert case.tree() == {}


async def test_s3_rm_rf_leaves_the_project_intact_and_the_review_shows_the_deletions(tmp_path):
    async with boxed(tmp_path, command("rm -rf ./* .git*; ls -A"), says(".")) as case:
        before = {"a.py": b"x\n", "src/b.py": b"y\n"}
        (case.project / "src").mkdir()
        for path, data in before.items():
            (case.project / path).write_bytes(data)
        await case.turn()
        assert "(no output)" in case.results()[0]
        assert case.tree() == before
        assert pending(case) == {"a.py": ("delete", None), "src/b.py": ("delete", None)}


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_m2_commands_in_ask_and_plan_leave_shadow_and_project_as_they_were(tmp_path, mode):
    writes = "touch x; echo y >> a.py; python3 -c \"open('z', 'w')\"; (sleep 0.2; touch late) & ls"
    async with boxed(tmp_path, command(writes), command("ls"), says("."), mode=mode) as case:
        (case.project / "a.py").write_text("x = 1\n")
        case.shadow.write("pending.txt", b"p\n")
        before = pending(case)
        await case.turn()
        first, second = case.results()
        assert "a.py\npending.txt\nx\nz" in first
        assert "its changes were discarded" in first
        assert "a.py\npending.txt\n[" in second
        assert pending(case) == before
        assert case.tree() == {"a.py": b"x = 1\n"}
        assert all(event.discarded for event in case.of(ev.EffectsRecorded))


async def test_the_shell_remembers_its_directory_and_its_variables_but_writes_no_secret_down(tmp_path):
    steps = [
        command("mkdir -p sub && touch sub/f && cd sub && export A='x y' MY_TOKEN=geheim; unset LANG"),
        command('echo "$PWD|$A|$MY_TOKEN|${LANG-none}"; cd /usr'),
        command("pwd"),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        assert f"{case.project}/sub|x y|geheim|none" in case.results()[1]
        assert "outside the workspace" in case.results()[1]
        assert f"\n{case.project}\n" in case.results()[2]
        moved = case.of(ev.ShellMoved)
        assert (moved[0].directory, moved[0].environment, moved[0].removed) == ("sub", {"A": "x y"}, ("LANG",))
        assert "geheim" not in repr(moved)
        case.session.terminal.reset_shell()
        assert case.state.shell == ev.ShellMoved()


async def test_s9_a_job_is_listed_fed_read_and_its_effects_join_the_review_when_it_ends(tmp_path):
    steps = [
        command("echo up; read line; echo got $line; echo $line > heard", is_background=True),
        calls(("read_terminal", {})),
        calls(("write_terminal", {"job": "job_1", "text": "hello\n", "wait": 20})),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        started, listed, fed = case.results()
        assert "runs in the background as job_1" in started
        assert "up" in started
        assert "job_1 runs since" in listed
        assert "job_1 ended: exit code 0" in fed
        assert "got hello" in fed
        assert pending(case) == {"heard": ("create", b"hello\n")}
        assert [event.id for event in case.of(ev.JobEnded)] == ["job_1"]
        assert case.state.jobs == {}


async def test_the_user_sees_what_a_job_writes_and_changes_while_it_runs_and_the_model_still_reads_it(tmp_path):
    steps = [command("echo up; echo 1 > made; read line", is_background=True), says(".")]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        [looked] = case.session.terminal.jobs.list_with_output(10)
        touched = case.session.terminal.jobs.get_job("job_1").execution.list_touched()
        assert (looked.output, touched) == ("up", ("made",))
        assert case.session.terminal.jobs.list_with_output(0)[0].output == ""
        await case.session.terminal.jobs.end("job_1")
        assert "made" in case.session.terminal.jobs.list_with_output(5)[0].result.effects
        assert case.session.terminal.jobs.get_job("job_1").execution.list_touched() == ()


async def test_s9_jobs_end_with_the_session_and_ctrl_c_reaches_them(tmp_path):
    steps = [
        command(
            "trap 'echo interrupted' INT; while :; do sh -c 'echo ready; exec sleep 600'; done", is_background=True
        ),
        calls(("stop_terminal", {"job": "job_1", "interrupt": True})),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        assert "interrupted" in case.results()[1]
        assert [job.id for job in case.session.terminal.jobs.running_jobs] == ["job_1"]
        await case.session.terminal.close()
        assert case.session.terminal.jobs.running_jobs == []
        assert case.of(ev.JobEnded)[0].ended == "stopped"


async def test_the_model_is_told_of_a_job_that_ended_by_itself(tmp_path):
    async with boxed(tmp_path, command("read line; touch done", is_background=True), says(".")) as case:
        await case.turn()
        job = case.session.terminal.jobs.get_job("job_1")
        await case.session.terminal.jobs.end("job_1")
        assert not job.is_alive
        case.model.steps = [says("noted")]
        await case.turn("Go on")
        messages = [message.content for message in case.messages if "job_1 has ended" in str(message.content)]
        assert len(messages) == 1
        assert case.state.unreported_commands == {}


async def test_s14_two_commands_at_once_have_layers_of_their_own_and_a_clash_is_a_conflict(tmp_path):
    steps = [
        command("read line; echo slow > same; echo 1 > one", is_background=True),
        command("echo fast > same; ls"),
        calls(("write_terminal", {"job": "job_1", "text": "go\n", "wait": 20})),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        assert "same" in case.results()[1]
        assert "one" not in case.results()[1].split("[")[0]
        assert case.shadow.read("one") == b"1\n"
        change = case.state.changes["same"]
        assert change.conflict or case.shadow.read("same") in {b"fast\n", b"slow\n"}
        assert case.tree() == {}


async def test_a_stopped_command_is_dropped_and_the_model_and_the_user_are_told(tmp_path):
    async with boxed(tmp_path, command("echo begun; touch half; sleep 600")) as case:
        begun = asyncio.Event()

        def seen(event: ev.AnyEvent) -> None:
            if isinstance(event, ev.ToolOutput) and "begun" in event.text:
                begun.set()

        case.on_event = seen
        turn = asyncio.create_task(case.turn())
        await begun.wait()
        assert case.session.interrupt()
        assert (await turn).reason == "interrupted"
        assert "the changes it had made were dropped" in case.results()[0]
        assert "begun" in case.results()[0]
        assert case.of(ev.EffectsRecorded)[0].discarded
        await case.session.terminal.close()
        assert pending(case) == {}
        assert case.shadow.layers.open_layers == ()


async def test_a_long_output_is_shortened_for_the_model_and_kept_whole(tmp_path):
    async with boxed(tmp_path, command("seq 1 60000"), says(".")) as case:
        await case.turn()
        [finished] = case.of(ev.ToolFinished)
        assert finished.spilled == f"output:{finished.call}.txt"
        assert finished.spilled in case.results()[0]
        assert len(case.results()[0]) < 120_000
        whole = (case.directory / "session" / "outputs" / f"{finished.call}.txt").read_text()
        assert whole == "".join(f"{number}\n" for number in range(1, 60_001))


async def test_checks_are_recorded_for_what_was_pending_all_the_time(tmp_path):
    steps = [
        calls(("write", {"file_path": "test_a.py", "contents": "def test_a():\n    assert 1 == 2\n"})),
        command("python3 -m unittest test_a 2>&1 | tail -1"),
        command("python3 -m unittest discover && echo fine"),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        checks = [event.check for event in case.of(ev.CheckRecorded)]
        assert len(checks) == 2
        assert case.state.changes["test_a.py"].check == checks[-1]


@pytest.mark.parametrize("is_led_away", [True, False])
async def test_a_check_whose_python_may_have_run_the_original_is_none(tmp_path, is_led_away):
    steps = [
        calls(("write", {"file_path": "test_a.py", "contents": TEST_A})),
        command("python3 -m unittest test_a"),
        says("."),
    ]
    async with boxed(tmp_path, *steps, tier=Tier.LANDLOCK) as case:
        library = case.project / ".venv" / "lib" / "python3.11" / "site-packages"
        library.mkdir(parents=True)
        (case.project / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (library / "a.pth").write_text("import _a_loader\n")
        (library / "_a_loader.py").write_text(f"PLACE = {str(case.project) if is_led_away else ''!r}\n")
        case.answer_approvals("allow_once")
        await case.turn()
        assert "OK" in case.results()[1]
        assert len(case.of(ev.CheckRecorded)) == (0 if is_led_away else 1)
        assert ("proves nothing about the pending changes" in case.results()[1]) is is_led_away


async def test_s12_a_box_that_can_not_start_a_command_is_an_error_and_nothing_runs(tmp_path):
    async with boxed(tmp_path, command("touch made"), says(".")) as case:
        box = await case.session.terminal.host.box.find()

        async def refuses(_spec, _on_output, _on_errors=None):
            raise ToolFailed("The sandbox could not be set up: no more namespaces.")

        box.start = refuses
        await case.turn()
        assert case.of(ev.ToolFinished)[0].status == "failed"
        assert "no more namespaces" in case.results()[0]
        assert case.tree() == {}
        assert case.state.changes == {}
        assert case.shadow.layers.open_layers == ()


async def test_m13_without_a_box_and_without_a_user_no_command_runs(tmp_path):
    case = Case(tmp_path, command("touch made"), says("."))
    case.session.user.is_interactive = False
    await case.turn()
    assert case.of(ev.ToolFinished)[0].status == "denied"
    assert case.tree() == {}


async def test_m4_a_job_of_agent_mode_keeps_its_effects_when_the_mode_changes(tmp_path):
    steps = [command("read line; echo $line > heard", is_background=True), says(".")]
    async with boxed(tmp_path, *steps) as case:
        await case.turn()
        case.emit(ev.ModeChanged(mode="ask"))
        case.session.terminal.jobs.send("job_1", "x\n")
        await case.session.terminal.jobs.read("job_1", 20)
        assert pending(case) == {"heard": ("create", b"x\n")}
        assert case.tree() == {}
