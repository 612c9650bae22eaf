"""A command's requests for more than running (`required_permissions`): what is granted, by whom, and recorded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.cli.arguments import parse
from core.exits import ExitCode
from core.permissions.audit import find_log_fault, read_entries
from core.permissions.saved_rules import SavedRules
from core.protocol import documents as d
from tests.integration.test_permissions import asked, engine_of, project, results, turn  # noqa: F401
from tests.support.agent_case import calls, says
from tests.support.boxes import command
from tests.support.configured import configured
from tests.support.open_session import run_turn

URL = "http://example.test:{}/"
GET = "curl -s --max-time 20 " + URL


def documents(engine, session) -> list[d.TerminalCommandMetadata]:
    turns = engine.state(session).turns
    finished_documents = [document for one in turns for document in one.list_finished_documents()]
    return [document.metadata for document in finished_documents if isinstance(document, d.TerminalCommandDocument)]


def git(*words: str, cwd: Path) -> str:
    return subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=True).stdout


def audit(engine, session):
    path = engine._find_session(session).directory.path / "audit.jsonl"
    assert find_log_fault(path) is None
    return read_entries(path)


@pytest.fixture
def auto(project) -> Path:  # noqa: F811
    configured("")
    return project


def asking(text: str, *permissions: str, **more):
    return command(text, required_permissions=list(permissions), **more)


# network: the hosts that the command names, once


async def test_the_hosts_that_a_command_names_are_asked_about_before_it_runs_and_hold_for_it_alone(auto, outside):
    text = GET.format(outside.port) + " && echo x >> ran.txt"
    steps = [asking(text, "network"), command(text), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        first, second = asked(await turn(engine, session, "allow_once", "reject_once"))
        assert (first.kind, first.subject, first.network) == ("command", text, ("example.test",))
        assert first.permissions == ("network",)
        assert "example.test" in first.reason
        assert second.kind == "network"
        granted, refused = documents(engine, session)
        assert (granted.requested_permissions, granted.permissions) == (("network",), ("network",))
        assert "hello" in granted.output
        assert (refused.requested_permissions, refused.permissions) == ((), ())
        assert "Run again" not in results(engine, session)[0]
        lines = [entry for entry in audit(engine, session) if entry.kind == "approval.asked"]
        assert lines[0].data["permissions"] == ["network"]


async def test_a_no_to_the_hosts_runs_nothing(auto, outside):
    async with engine_of(auto, asking(GET.format(outside.port), "network"), says("ok")) as (engine, session):
        await turn(engine, session, "reject_once")
        [refused] = documents(engine, session)
        assert (refused.requested_permissions, refused.permissions, refused.exit_code) == (("network",), (), None)
        assert outside.heard == b""


async def test_m6_always_for_the_hosts_is_for_exactly_this_command_with_this_request(auto, outside):
    text = GET.format(outside.port)
    steps = [asking(text, "network"), asking(text, "network"), asking(f"{text} ", "network"), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        seen = asked(await turn(engine, session, "allow_always"))
        assert [request.subject for request in seen] == [text, f"{text} "]
        assert [rule.shown for rule in SavedRules(auto).load()] == [text]
        assert "hello" in documents(engine, session)[1].output


async def test_m10_a_host_that_a_rule_refuses_is_not_asked_about_and_that_is_said(auto, outside):
    configured('[permissions]\ndeny = ["WebFetch(*.test)"]\n')
    async with engine_of(auto, asking(GET.format(outside.port), "network"), says("ok")) as (engine, session):
        assert asked(await turn(engine, session)) == []
        assert "network was not granted: one of the user's rules denies example.test" in results(engine, session)[0]
        assert documents(engine, session)[0].permissions == ()
        assert outside.heard == b""


async def test_a_request_that_names_no_host_needs_no_question(auto):
    async with engine_of(auto, asking("echo 1; curl -s http://localhost:9/", "network"), says("ok")) as (
        engine,
        session,
    ):
        assert asked(await turn(engine, session)) == []
        [ran, *_] = documents(engine, session)
        assert (ran.requested_permissions, ran.permissions) == (("network",), ())
        assert ran.working_directory == str(auto)


async def test_a_job_is_granted_no_host(auto):
    job = asking("curl http://example.test/; sleep 60", "network", is_background=True)
    async with engine_of(auto, job, says("ok")) as (engine, session):
        assert asked(await turn(engine, session)) == []
        assert "network was not granted: a background command" in results(engine, session)[0]
        assert engine._find_session(session).permissions.network_grants.list_hosts() == ()


# git_write: kept by the box for the review


async def test_commits_stay_in_the_box_for_the_review_and_need_no_question(auto):
    git("init", "-q", ".", cwd=auto)
    text = "git add a.txt && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline | wc -l"
    async with engine_of(auto, asking(text, "git_write"), says("ok")) as (engine, session):
        assert asked(await turn(engine, session)) == []
        [metadata] = documents(engine, session)
        assert (metadata.permissions, metadata.output.strip()) == (("git_write",), "1")
    assert git("rev-list", "--all", cwd=auto) == ""


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_m1_a_mode_that_keeps_nothing_grants_no_write_to_git(auto, mode):
    async with engine_of(auto, asking("echo 1", "git_write"), says("ok"), mode=mode) as (engine, session):
        await turn(engine, session)
        assert "git_write was not granted" in results(engine, session)[0]
        assert documents(engine, session)[0].permissions == ()


async def test_the_record_says_once_what_was_asked_for_whatever_words_it_was_asked_in(auto):
    codex = {"command": ["bash", "-lc", "touch made"], "workdir": "sub", "with_escalated_permissions": True}
    twice = asking("echo 1", "git_write", "git_write")
    async with engine_of(auto, calls(("shell", codex)), twice, says("ok")) as (engine, session):
        [request] = asked(await turn(engine, session, "reject_once"))
        refused, ran = documents(engine, session)
        assert (request.kind, request.subject) == ("machine", f"(cd {auto}/sub || exit\ntouch made\n)")
        assert (refused.command, refused.requested_permissions) == (request.subject, ("all",))
        assert ran.requested_permissions == ("git_write",)


async def test_a_command_with_a_directory_of_its_own_runs_there_and_leaves_the_shell_where_it_is(auto):
    (auto / "sub").mkdir()
    steps = [command("pwd", working_directory=where) for where in ("sub", "sub", str(auto), "no such")]
    async with engine_of(auto, *steps, command("pwd"), says("ok")) as (engine, session):
        await turn(engine, session)
        first, again, root, missing, after = documents(engine, session)
        assert first.command == f"(cd {auto}/sub || exit\npwd\n)"
        assert first.output == again.output == f"{auto}/sub\n"
        assert (root.command, root.output) == ("pwd", f"{auto}\n")
        assert missing.exit_code == 1
        assert after.output == f"{auto}\n"


@pytest.mark.parametrize("wanted", ["usb", "ALL", ""])
async def test_what_there_is_not_to_ask_for_is_refused_with_what_there_is(auto, wanted):
    async with engine_of(auto, asking("touch made", wanted), says("ok")) as (engine, session):
        await turn(engine, session)
        assert "required_permissions" in results(engine, session)[0]
        assert not (auto / "made").exists()


async def test_without_a_user_a_host_is_not_granted_by_its_name_in_a_command(auto, outside):
    text = GET.format(outside.port)
    async with engine_of(auto, asking(text, "network"), says("ok"), interactive=False) as (engine, session):
        await run_turn(engine, session)
        assert documents(engine, session)[0].exit_code is None
        assert outside.heard == b""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-p", "x", "--allow", "Machine(git push *)"], "not name an exact command"),
        (["-p", "x", "--allow", "Service(localhost)"], "not name a service"),
        (["-p", "x", "--allow", "everything"], "no permission rule"),
        (["--allow", "Service(docker)"], "works only with -p"),
    ],
)
def test_what_is_no_rule_or_has_no_place_is_a_wrong_argument(tmp_path, capsys, words, told):
    with pytest.raises(SystemExit) as ended:
        parse([str(tmp_path), *words])
    assert ended.value.code == ExitCode.USAGE
    assert told.split()[-1] in capsys.readouterr().err


def test_what_is_allowed_on_the_command_line_is_a_rule_of_the_run(tmp_path):
    words = ["-p", "x", "--allow", "Machine(git push)", "--allow", "Service(docker)"]
    assert parse([str(tmp_path), *words]).allow == ("Machine(git push)", "Service(docker)")
