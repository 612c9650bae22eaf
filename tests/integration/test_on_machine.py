"""Commands that leave the box (`required_permissions: ["all"]`): whose yes it takes, what they get, what is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.agent.base.budget import SubagentLimits, TurnBudget
from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from core.config.settings import TurnLimits
from core.exits import ExitCode
from core.permissions.saved_rules import SavedRules
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.search_paths import SAVED_PREFIX
from tests.integration.test_hooks import write_hooks
from tests.integration.test_permissions import asked, engine_of, results, turn
from tests.integration.test_requested_permissions import asking, audit, documents, git
from tests.support.agent_case import Case, calls, says
from tests.support.boxes import boxed, command
from tests.support.configured import ASKS, configured
from tests.support.git_server import PASSWORD, USER, git_server
from tests.support.open_session import run_turn
from tests.support.story import access, project_at


@pytest.fixture
def auto(tmp_path) -> Path:
    """A project whose commands run unasked where a box holds them."""
    configured("")
    return project_at(tmp_path / "project")


def on_machine(text: str, **more):
    return asking(text, "all", **more)


async def test_a_command_leaves_the_box_only_by_a_yes_to_exactly_that(auto, monkeypatch):
    monkeypatch.setenv("MY_TOOL_HOME", "/opt/mine")
    text = 'echo "$MY_TOOL_HOME" > made.txt; pwd'
    again = [on_machine(text), on_machine(text), command("cat made.txt"), says("ok")]
    async with engine_of(auto, *again) as (engine, session):
        seen = await turn(engine, session, "run_on_machine", "reject_once")
        first, second = asked(seen)
        assert (first.kind, first.subject, first.permissions) == ("machine", text, ("all",))
        assert first.options == ("run_on_machine", "allow_always", "allow_once", "reject_once")
        assert "nothing it does is reviewed" in first.containment
        assert second.subject == text
        ran, refused, _ = documents(engine, session)
        assert (ran.permissions, ran.requested_permissions) == (("all",), ("all",))
        assert (refused.permissions, refused.exit_code) == ((), None)
        assert (auto / "made.txt").read_text() == "/opt/mine\n"
        assert ran.output.strip() == str(auto)
        [effects] = [event for event in seen if isinstance(event, ev.EffectsRecorded) and event.on_machine]
        assert effects.created == ("made.txt",)
        assert ran.effects == "changed: created made.txt; not for review"
        assert engine.state(session).changes == {}
        kinds = [entry.kind for entry in audit(engine, session)]
        assert kinds.index("approval.answered") < kinds.index("command.ended")
        [line] = [entry for entry in audit(engine, session) if entry.data.get("on_machine")]
        assert line.data["command"] == text


async def test_the_user_may_send_it_to_the_box_instead(auto):
    async with engine_of(auto, on_machine("touch made.txt"), says("ok")) as (engine, session):
        await turn(engine, session, "allow_once")
        assert not (auto / "made.txt").exists()
        assert list(engine.state(session).changes) == ["made.txt"]
        assert documents(engine, session)[0].permissions == ()


async def test_the_user_may_let_out_a_command_that_did_not_ask_for_it_and_is_asked_once_more(auto):
    configured(ASKS)
    steps = [command("touch made.txt"), command("touch other.txt"), command("touch third.txt"), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        answers = ("run_on_machine", "run_on_machine", "run_on_machine", "reject_once", "run_on_machine", "allow_once")
        seen = asked(await turn(engine, session, *answers))
        assert [request.kind for request in seen] == ["command", "machine"] * 3
        assert seen[0].options[-1] == "run_on_machine"
        assert [document.permissions for document in documents(engine, session)] == [("all",), (), ()]
        assert [document.requested_permissions for document in documents(engine, session)] == [(), (), ()]
        assert sorted(path.name for path in auto.iterdir()) == ["a.txt", "made.txt"]
        assert list(engine.state(session).changes) == ["third.txt"]


@pytest.mark.parametrize(("mode", "more"), [("ask", {}), ("plan", {}), ("agent", {"is_background": True})])
async def test_m1_the_way_out_is_not_offered_where_there_is_none(auto, mode, more):
    configured(ASKS)
    async with engine_of(auto, command("touch made.txt", **more), says("ok"), mode=mode) as (engine, session):
        [request] = asked(await turn(engine, session, "reject_once"))
        assert "run_on_machine" not in request.options


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_m1_no_command_leaves_the_box_where_nothing_may_change(auto, mode):
    async with engine_of(auto, on_machine("touch made.txt"), says("ok"), mode=mode) as (engine, session):
        assert asked(await turn(engine, session, "run_on_machine")) == []
        assert "nothing may change now" in results(engine, session)[0]
        assert not (auto / "made.txt").exists()


async def test_a_job_does_not_leave_the_box(auto):
    async with engine_of(auto, on_machine("touch made.txt", is_background=True), says("ok")) as (engine, session):
        assert asked(await turn(engine, session, "run_on_machine")) == []
        assert "only a foreground command" in results(engine, session)[0]


async def test_m10_a_rule_keeps_commands_in_the_box(auto):
    configured('[permissions]\ndeny = ["Machine(*)"]\nallow = ["Machine(touch made.txt)"]\n')
    async with engine_of(auto, on_machine("touch made.txt"), says("ok")) as (engine, session):
        assert asked(await turn(engine, session, "run_on_machine")) == []
        assert "Machine(*)" in results(engine, session)[0]


async def test_m6_only_a_rule_that_names_it_exactly_answers_for_a_user_who_is_there(auto):
    configured('[permissions]\nallow = ["Machine(touch made.txt)", "Shell(*)"]\n')
    steps = [on_machine("touch made.txt"), on_machine("touch other.txt"), on_machine("touch made.txt "), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        seen = await turn(engine, session)
        assert [request.subject for request in asked(seen)] == ["touch other.txt", "touch made.txt "]
        [ruled, *refused] = [event for event in seen if isinstance(event, ev.ApprovalResolved)]
        assert (ruled.decision, ruled.note) == ("run_on_machine", "A rule allows exactly this command.")
        assert {event.decision for event in refused} == {"reject_once"}
        assert (auto / "made.txt").exists()
        assert not (auto / "other.txt").exists()


async def test_m6_always_holds_for_exactly_this_command_at_the_top_of_the_project_and_not_after_foreign_text(auto):
    (auto / "sub").mkdir()
    text = "echo x >> made.txt"
    ways = [on_machine(text), on_machine(text), on_machine(f"{text} "), command("cd sub"), on_machine(text), says("ok")]
    async with engine_of(auto, *ways, on_machine(text), says("ok")) as (engine, session):
        seen = await turn(engine, session, "allow_always")
        answers = [event for event in seen if isinstance(event, ev.ApprovalResolved)]
        assert [event.decision for event in answers] == ["allow_always", "run_on_machine", "reject_once", "reject_once"]
        assert answers[1].pattern == f"Machine({text})"
        first, *others = asked(seen)
        assert "allow_always" in first.options
        # A rule can't end with a blank, and elsewhere the same words can mean something else.
        assert [request.subject for request in others] == [f"{text} ", text]
        assert all("allow_always" not in request.options for request in others)
        assert (auto / "made.txt").read_text() == "x\nx\n"
        assert not (auto / "sub/made.txt").exists()
        [rule] = SavedRules(auto).load()
        assert (rule.choice, rule.rule) == ("allow", f"Machine({text})")
        engine._find_session(session).emit(ev.ForeignReceived(source="evil.example"))
        assert [request.kind for request in asked(await turn(engine, session))] == ["tool"]
        assert (auto / "made.txt").read_text() == "x\nx\n"


async def test_s13_a_command_that_a_rule_lets_out_finds_no_program_of_the_project(auto, monkeypatch):
    (auto / "bin").mkdir()
    (auto / "bin/mytool").write_text("#!/bin/sh\necho mine\n")
    (auto / "bin/mytool").chmod(0o755)
    monkeypatch.setenv(f"{SAVED_PREFIX}PATH", f"{auto / 'bin'}{os.pathsep}{os.environ['PATH']}")
    async with engine_of(auto, on_machine("mytool"), on_machine("mytool"), says("ok")) as (engine, session):
        await turn(engine, session, "run_on_machine", "allow_always")
        assert documents(engine, session)[0].exit_code == 0
    async with engine_of(auto, on_machine("mytool"), says("ok")) as (engine, session):
        await turn(engine, session)
        assert documents(engine, session)[0].exit_code == 127


@pytest.mark.parametrize("text", ["rm *.txt", "git -C sub push"])
async def test_always_is_not_offered_for_a_pattern_nor_for_another_repository(auto, text):
    git("init", "-q", "sub", cwd=auto)
    async with engine_of(auto, on_machine(text), says("ok")) as (engine, session):
        [request] = asked(await turn(engine, session))
        assert request.options == ("run_on_machine", "allow_once", "reject_once")


async def test_m5_a_yes_holds_for_the_mode_in_which_it_was_asked(auto):
    async with engine_of(auto, on_machine("touch made.txt"), says("ok")) as (engine, session):
        opened = engine._find_session(session)

        def change(event) -> None:
            opened.emit(ev.ModeChanged(mode="debug"))

        opened.recorder.listeners.append(((ev.ApprovalRequested,), change))
        await turn(engine, session, "run_on_machine")
        assert not (auto / "made.txt").exists()
        assert "Not run" in results(engine, session)[0]


async def test_i8_after_foreign_text_the_user_is_asked_twice(auto):
    async with engine_of(auto, on_machine("touch made.txt"), on_machine("touch made.txt"), says("ok")) as (
        engine,
        session,
    ):
        engine._find_session(session).emit(ev.ForeignReceived(source="evil.example"))
        seen = asked(await turn(engine, session, "reject_once", "allow_once", "run_on_machine"))
        assert [request.kind for request in seen] == ["tool", "tool", "machine"]
        assert "evil.example" in seen[0].reason
        assert (auto / "made.txt").exists()


async def test_what_is_not_on_the_disk_yet_is_said_and_not_seen(auto):
    write = calls(("write", {"file_path": "new.txt", "contents": "x\n"}))
    async with engine_of(auto, write, on_machine("ls"), says("ok")) as (engine, session):
        [request] = asked(await turn(engine, session, "run_on_machine"))
        assert "1 file is pending review" in request.containment
        assert documents(engine, session)[0].output.split() == ["a.txt"]


async def test_what_commands_have_set_stays_in_the_box(auto):
    steps = [command("export EVIL=1 PATH=/tmp/evil"), on_machine('echo "<$EVIL>"; echo "$PATH"'), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        await turn(engine, session, "run_on_machine")
        output = documents(engine, session)[1].output
        assert output.startswith("<>")
        assert "/tmp/evil" not in output


async def test_a_directory_that_only_waits_for_the_review_is_no_place_to_run_in(auto):
    steps = [command("mkdir sub && touch sub/x && cd sub"), on_machine("touch made.txt"), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        await turn(engine, session, "run_on_machine")
        assert "is not a directory of the project on disk" in results(engine, session)[1]
        assert not list(auto.rglob("made.txt"))


async def test_k1_it_is_given_no_key_of_a_model_and_prints_no_token(auto, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-0123456789abcdef0123")
    monkeypatch.setenv("DEPLOY_TOKEN", "abcdef0123456789")
    steps = [on_machine("env"), on_machine('test -n "$DEPLOY_TOKEN" -a -z "$OPENAI_API_KEY"'), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        await turn(engine, session, "run_on_machine", "run_on_machine")
        first, second = documents(engine, session)
        assert "sk-proj" not in first.output
        assert "abcdef0123456789" not in first.output
        assert second.exit_code == 0


async def test_i1_nothing_leaves_the_box_for_a_project_that_is_not_trusted(tmp_path):
    configured("")
    (tmp_path / "new").mkdir()
    async with engine_of(tmp_path / "new", on_machine("touch made.txt"), says("ok")) as (engine, session):
        assert asked(await turn(engine, session, "run_on_machine")) == []
        assert "not trusted this project" in results(engine, session)[0]
        assert not (tmp_path / "new" / "made.txt").exists()


async def test_p2_a_directory_that_became_a_link_out_of_the_project_is_no_place_to_run_in(auto, tmp_path):
    (tmp_path / "other").mkdir()
    (auto / "sub").mkdir()
    (auto / "sub" / "x").write_text("x\n")
    async with engine_of(auto, command("cd sub"), says("ok"), on_machine("touch made"), says("ok")) as (
        engine,
        session,
    ):
        await turn(engine, session)
        (auto / "sub").rename(auto / "was")
        (auto / "sub").symlink_to(tmp_path / "other")
        await turn(engine, session, "run_on_machine")
        assert "is not a directory of the project on disk" in results(engine, session)[1]
        assert not list(tmp_path.rglob("made"))


async def test_a_hook_is_told_that_a_command_asks_to_leave_the_box_and_may_keep_it_in(auto):
    hook = "grep -qE '\"sandbox\": ?false' && exit 2; exit 0"
    write_hooks(auto, {"beforeShellExecution": [{"command": hook}]})
    async with engine_of(auto, on_machine("touch made.txt"), command("echo ran"), says("ok")) as (engine, session):
        assert asked(await turn(engine, session, "run_on_machine")) == []
        assert not (auto / "made.txt").exists()
        assert documents(engine, session)[1].output == "ran\n"


async def test_p10_what_it_leaves_is_told_whatever_its_names_and_what_it_prints_is_plain_text(auto):
    text = r"""touch $'bad\xff' $'new\nline'; mkfifo pipe; mkdir -m 0 shut; printf '\x1b[31mred\x07\0\n'"""
    async with engine_of(auto, on_machine(text), says("ok")) as (engine, session):
        seen = await turn(engine, session, "run_on_machine")
        [effects] = [event for event in seen if isinstance(event, ev.EffectsRecorded)]
        assert effects.created == ("bad\N{REPLACEMENT CHARACTER}", "new\nline", "pipe")
        assert documents(engine, session)[0].output == "red\n"


async def test_r1_a_command_on_the_machine_that_never_stops_talking_is_ended(auto):
    async with engine_of(auto, on_machine("yes"), says("ok")) as (engine, session):
        await turn(engine, session, "run_on_machine")
        assert "too much output" in results(engine, session)[0]
        assert documents(engine, session)[0].exit_code is None


async def test_p15_a_file_that_waits_is_in_conflict_when_the_command_changed_it(auto):
    edit = calls(("search_replace", {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}))
    async with engine_of(auto, edit, on_machine("sed -i s/two/2/ a.txt"), says("ok")) as (engine, session):
        await turn(engine, session, "run_on_machine")
        assert engine.state(session).changes["a.txt"].conflict
        assert (auto / "a.txt").read_text() == "one\n2\nthree\n"


async def test_git_push_goes_out_with_the_users_own_git(auto, tmp_path):
    remote = tmp_path / "remote.git"
    remote.mkdir()
    git("init", "-q", "--bare", ".", cwd=remote)
    git("init", "-q", "-b", "main", ".", cwd=auto)
    git("add", "a.txt", cwd=auto)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one", cwd=auto)
    git("remote", "add", "origin", f"file://{remote}", cwd=auto)
    push = "git push -q -u origin main && echo pushed"
    async with engine_of(auto, command(push), on_machine(push), says("ok")) as (engine, session):
        await turn(engine, session, "run_on_machine")
        boxed_run, outside_run = documents(engine, session)
        assert boxed_run.exit_code != 0
        assert (outside_run.exit_code, outside_run.output.strip()[-6:]) == (0, "pushed")
        assert "git's own state changed" in outside_run.effects
    assert git("log", "--format=%s", "main", cwd=remote) == "one\n"


async def test_git_push_uses_the_credentials_that_the_users_git_knows_and_says_them_to_nobody(
    auto, tmp_path, monkeypatch
):
    remote, secret = tmp_path / "srv" / "shop.git", tmp_path / "credentials"
    remote.mkdir(parents=True)
    git("init", "-q", "--bare", ".", cwd=remote)
    git("init", "-q", "-b", "main", ".", cwd=auto)
    git("add", "a.txt", cwd=auto)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one", cwd=auto)
    with git_server(tmp_path / "srv") as address:
        git("remote", "add", "origin", f"{address}/shop.git", cwd=auto)
        secret.write_text(address.replace("://", f"://{USER}:{PASSWORD}@") + "\n")
        settings = tmp_path / "gitconfig"
        push = "git push -q origin main; echo $?"
        async with engine_of(auto, on_machine(push), on_machine(push), says("ok")) as (engine, session):
            monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
            await turn(engine, session, "run_on_machine", "reject_once")
            assert "128" in documents(engine, session)[0].output  # nobody is there to type a password
            settings.write_text(f"[credential]\n\thelper = store --file={secret}\n")
        async with engine_of(auto, on_machine(push), says("ok")) as (engine, session):
            await turn(engine, session, "run_on_machine")
            assert documents(engine, session)[0].output == "0\n"
            assert PASSWORD not in engine._find_session(session).directory.path.joinpath("log.jsonl").read_text()
    assert git("log", "--format=%s", "main", cwd=remote) == "one\n"


def wait_gone(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(timeout=60)
    except psutil.NoSuchProcess:
        return True
    return not psutil.pid_exists(pid)


async def test_v9_a_command_on_the_machine_that_is_stopped_leaves_no_process_and_says_what_stays(auto):
    text = "touch made.txt; sleep 600 & echo $!; sleep 600; echo never"
    output = ""
    async with engine_of(auto, on_machine(text), says("ok")) as (engine, session):
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        async with contextlib.aclosing(engine.events(session, after=0)) as stream:
            async for envelope in stream:
                match envelope.event:
                    case ev.ApprovalRequested(id=identity):
                        answer = cmd.ApprovalAnswer(session=session, id=identity, decision="run_on_machine")
                        await engine.submit(answer)
                    case ev.ToolOutput(text=heard):
                        output += heard
                        await engine.submit(cmd.TurnInterrupt(session=session))
                    case ev.TurnFinished():
                        break
        await engine.wait_idle(session)
        assert "changes it had already made on their machine stay" in results(engine, session)[0]
        assert await asyncio.to_thread(wait_gone, int(output))
        assert (auto / "made.txt").exists()


async def test_r5_a_command_on_the_machine_is_ended_after_its_time(auto):
    async with engine_of(auto, on_machine("echo begun; sleep 600", timeout=1), says("ok")) as (engine, session):
        await turn(engine, session, "run_on_machine")
        assert "timed out after" in results(engine, session)[0]
        assert documents(engine, session)[0].output == "begun\n"


# without a user


async def test_m13_without_a_user_nothing_leaves_the_box_but_what_a_rule_names_exactly(auto):
    configured('[permissions]\nallow = ["Machine(touch named.txt)"]\n')
    steps = [on_machine("touch named.txt"), on_machine("touch other.txt"), on_machine("touch named.txt "), says("ok")]
    async with engine_of(auto, *steps, interactive=False) as (engine, session):
        await run_turn(engine, session)
        assert sorted(path.name for path in auto.iterdir() if path.suffix == ".txt") == ["a.txt", "named.txt"]
        assert "Nobody can be asked" in results(engine, session)[1]
        assert [document.permissions for document in documents(engine, session)] == [("all",), (), ()]
        answers = [entry.data["by"] for entry in audit(engine, session) if entry.kind == "approval.answered"]
        assert answers == ["user", "program", "program"]


async def test_without_a_user_and_after_foreign_text_no_rule_lets_a_command_out(auto):
    configured('[permissions]\nallow = ["Machine(touch named.txt)"]\n')
    async with engine_of(auto, on_machine("touch named.txt"), says("ok"), interactive=False) as (engine, session):
        engine._find_session(session).emit(ev.ForeignReceived(source="evil.example"))
        await run_turn(engine, session)
        assert not (auto / "named.txt").exists()
        assert "evil.example" in results(engine, session)[0]


async def test_m12_a_subagents_command_does_not_leave_the_box(tmp_path):
    async with boxed(tmp_path, on_machine("touch made.txt"), says("ok")) as case:
        case.session.permissions.subagent_limits = SubagentLimits(
            parent_grants=lambda _: True, budget=TurnBudget(TurnLimits)
        )
        case.answer_approvals("run_on_machine")
        await case.turn()
        assert case.of(ev.ApprovalRequested) == []
        assert "a subagent's commands always stay sandboxed" in case.results()[0]
        assert case.tree() == {}


async def test_s12_where_nothing_holds_a_command_there_is_no_box_to_send_it_to(tmp_path):
    case = Case(tmp_path, on_machine("touch made.txt"), says("ok"))
    case.answer_approvals("run_on_machine")
    await case.turn()
    [request] = case.of(ev.ApprovalRequested)
    assert (request.kind, request.options) == ("machine", ("run_on_machine", "reject_once"))
    assert (case.project / "made.txt").exists()


def test_print_refuses_to_leave_the_box_with_an_exit_code_unless_a_rule_is_given(auto, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    steps = [on_machine("touch named.txt"), says("ok")]
    options = {"directory": auto, "prompt": "go", "output_format": "json"}
    assert run_print(PrintArguments(**options), models=access(steps)) == ExitCode.REFUSED
    refused = json.loads(capsys.readouterr().out)["documents"][0]["metadata"]
    assert (refused["requestedPermissions"], refused["permissions"], refused["exitCode"]) == (["all"], [], None)
    assert "-p --allow" in refused["output"]
    assert not (auto / "named.txt").exists()
    allowed = PrintArguments(**options, allow=("Machine(touch named.txt)",))
    assert run_print(allowed, models=access(steps)) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["documents"][0]["metadata"]["permissions"] == ["all"]
    assert (auto / "named.txt").exists()
    assert run_print(replace(allowed, output_format="text"), models=access(steps)) == ExitCode.DONE
    assert "! Unsandboxed, on your machine: touch named.txt\n" in capsys.readouterr().err


@pytest.mark.parametrize(("trusted", "warned"), [(False, True), (True, False)])
def test_print_warns_that_a_rule_for_the_machine_does_nothing_in_an_untrusted_project(
    tmp_path, capsys, monkeypatch, trusted, warned
):
    monkeypatch.setattr("sys.stdin", None)
    configured("")
    (tmp_path / "new").mkdir()
    arguments = PrintArguments(directory=tmp_path / "new", prompt="go", allow=("Machine(make)",), trust=trusted)
    assert run_print(arguments, models=access([says("ok")])) == ExitCode.DONE
    warning = "! This project is not trusted, so --allow has no effect: Machine(make). Answer yes when"
    assert (warning in capsys.readouterr().err) == warned
