"""Hooks in the real engine, as real processes in the box."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from core.engine import Engine
from core.permissions.trust import TrustStore
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import AssistantMessage, ToolMessage, UserMessage
from tests.support.agent_case import calls, says
from tests.support.box_tiers import offered
from tests.support.configured import configured
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import access
from tests.support.trust import trust

pytestmark = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="hooks need a box")


def write_hooks(project: Path, hooks: dict[str, Any], place: str = ".cursor/hooks.json") -> None:
    file = project / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 1, "hooks": hooks}))
    trust(project)


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    return root


def results(engine: Engine, session: str) -> list[str]:
    return [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]


def told(engine: Engine, session: str) -> str:
    return "\n".join(message.content for message in engine.state(session).messages if isinstance(message, UserMessage))


WRITE = calls(("write", {"file_path": "b.txt", "contents": "x=1\n"}))


async def test_a_hook_that_exits_with_2_refuses_a_command_and_says_why(project):
    write_hooks(project, {"beforeShellExecution": [{"command": "cat > /dev/null; echo no git here >&2; exit 2"}]})
    steps = [calls(("run_terminal_cmd", {"command": "touch made"})), says("Done.")]
    async with session_in(project, access(steps)) as (engine, session):
        events = await run_turn(engine, session)
        ran = [event for event in events if isinstance(event, ev.HookRan)]
        assert "no git here" in results(engine, session)[0]
        assert [(event.outcome, event.exit_code) for event in ran] == [("denied", 2)]
        assert not engine.state(session).changes
        finished = next(event for event in events if isinstance(event, ev.ToolFinished))
        assert finished.status == "denied"


async def test_what_a_formatter_changes_waits_for_the_review_and_the_disk_is_untouched(project):
    hook = r"""python3 -c 'import json,sys; p=json.load(sys.stdin)["file_path"]; open(p,"a").write("# formatted\n")'"""
    write_hooks(project, {"afterFileEdit": [{"command": hook}]})
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        change = engine.state(session).changes["b.txt"]
        assert change.origin is not None
        assert (change.origin.tool, change.origin.command) == ("hook", hook)
        assert "edited b.txt" in results(engine, session)[0]
        assert sorted(path.name for path in project.iterdir()) == [".cursor", "a.txt"]


async def test_a_hook_gets_the_whole_event_on_its_standard_input(project):
    write_hooks(
        project,
        {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "cat > seen.json"}]}]},
        ".claude/settings.json",
    )
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        seen = json.loads(engine.terminal(session).host.shadow.read("seen.json"))
        assert (seen["hook_event_name"], seen["tool_name"]) == ("PreToolUse", "Write")
        assert seen["tool_input"] == {"file_path": str(project / "b.txt"), "content": "x=1\n"}
        assert (seen["session_id"], seen["cwd"]) == (session, str(project))


async def test_a_prompt_that_a_hook_refuses_is_never_sent(project):
    write_hooks(
        project, {"beforeSubmitPrompt": [{"command": 'echo \'{"continue": false, "user_message": "no secrets"}\''}]}
    )
    async with session_in(project, access([says("Done.")])) as (engine, session):
        events = await run_turn(engine, session, "my password is 1234")
        assert "1234" not in told(engine, session)
        end = events[-1]
        assert isinstance(end, ev.TurnFinished)
        assert (end.reason, "no secrets" in end.message) == ("failed", True)


async def test_a_stop_hook_keeps_the_agent_going_until_its_limit(project):
    hook = {"command": 'echo \'{"followup_message": "Run the tests."}\'', "loop_limit": 2}
    write_hooks(project, {"stop": [hook]})
    async with session_in(project, access([says("Done."), says("Again."), says("Enough."), says("Never.")])) as (
        engine,
        session,
    ):
        await run_turn(engine, session)
        messages = [
            message.content for message in engine.state(session).messages if isinstance(message, AssistantMessage)
        ]
        assert messages == ["Done.", "Again.", "Enough."]
        assert told(engine, session).count("Run the tests.") == 2


def record(events: list[ev.AnyEvent]) -> list[tuple[str, str]]:
    return [(event.event, event.outcome) for event in events if isinstance(event, ev.HookRan)]


async def test_i1_hooks_of_a_project_do_not_run_before_it_is_trusted_and_the_question_shows_them(project):
    write_hooks(project, {"preToolUse": [{"command": "touch sprung; exit 2"}]})
    TrustStore(project).revoke()
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        events = await run_turn(engine, session)
        asked = engine.state(session).trust
        assert asked is not None
        assert (asked.state, asked.hooks) == ("asked", ("preToolUse: touch sprung; exit 2",))
        assert ".cursor/hooks.json" in asked.holds
        assert record(events) == []
        assert "b.txt" in engine.state(session).changes


async def test_n3_a_hook_whose_script_has_changed_waits_for_another_yes(project):
    script = project / "guard.sh"
    script.write_text("exit 2\n")
    write_hooks(project, {"preToolUse": [{"command": "bash ./guard.sh"}]})
    async with session_in(project, access([WRITE, says("Done."), WRITE, says("Done.")])) as (engine, session):
        assert record(await run_turn(engine, session)) == [("preToolUse", "denied")]
        script.write_text("exit 0\n")
        assert record(await run_turn(engine, session)) == []
        asked = engine.state(session).trust
        assert asked is not None
        assert (asked.changed, asked.hooks) == ((".cursor/hooks.json",), ("~ preToolUse: bash ./guard.sh",))


async def test_n3_hooks_that_have_changed_are_shown_as_what_is_new_and_what_is_gone(project):
    write_hooks(project, {"preToolUse": [{"command": "true"}, {"command": "cat"}]})
    hooks = {"preToolUse": [{"command": "true"}], "stop": [{"command": "exit 3"}]}
    (project / ".cursor" / "hooks.json").write_text(json.dumps({"version": 1, "hooks": hooks}))
    async with session_in(project, access([says("Done."), says("Done.")])) as (engine, session):
        asked = engine.state(session).trust
        assert asked is not None
        assert asked.hooks == ("- preToolUse: cat", "+ stop: exit 3")
        assert record(await run_turn(engine, session)) == []
        await engine.submit(cmd.TrustSet(session=session, trusted=True))
        assert record(await run_turn(engine, session)) == [("stop", "failed")]
    assert TrustStore(project).load_hooks()[".cursor/hooks.json"] == ["preToolUse: true", "stop: exit 3"]


@pytest.mark.parametrize("command", ["bash ./guard.sh", 'bash "$CLAUDE_PROJECT_DIR"/guard.sh'])
async def test_a_script_that_the_agent_has_changed_binds_nobody_before_it_is_accepted(project, command):
    (project / "guard.sh").write_text("echo kept >&2; exit 2\n")
    write_hooks(project, {"beforeShellExecution": [{"command": command}]})
    disarm = calls(("search_replace", {"file_path": "guard.sh", "old_string": "exit 2", "new_string": "exit 0"}))
    steps = [disarm, calls(("run_terminal_cmd", {"command": "true"})), says("Done.")]
    async with session_in(project, access(steps)) as (engine, session):
        events = await run_turn(engine, session)
        assert "guard.sh" in engine.state(session).changes
        assert record(events) == [("beforeShellExecution", "denied")]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sleep 100", "it was still running after 1 s"),
        ("yes | head -c 12000000", "it wrote too much"),
        ("head -c 2000000 /dev/zero | tr '\\0' x", "it wrote more than 1 MB"),
        ('printf \'{"permission": "al\'', "not one complete JSON object"),
        ("python3 hooks/gone.py", "its script does not exist"),
        ("./gone", "its script does not exist"),
        ("gone-program", "it ended with 127"),
        ("kill -9 $$", "it ended with 137"),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
async def test_a_hook_without_an_answer_refuses_only_where_it_fails_closed(project, command, why, closed):
    seconds = 1 if command.startswith("sleep") else 60
    write_hooks(project, {"preToolUse": [{"command": command, "failClosed": closed, "timeout": seconds}]})
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        events = await run_turn(engine, session)
        (ran,) = (event for event in events if isinstance(event, ev.HookRan))
        assert (ran.outcome, why in ran.message) == ("denied" if closed else "failed", True)
        assert ("b.txt" in engine.state(session).changes) is not closed
        assert any(isinstance(event, ev.Notice) and why in event.message for event in events)


async def test_changed_arguments_are_checked_decided_on_and_shown_to_the_hooks_again(project):
    change = 'echo \'{"updated_input": {"command": "touch other"}}\''
    refuse = "grep -q 'touch other' && exit 2 || exit 0"
    write_hooks(project, {"preToolUse": [{"command": change}, {"command": refuse}]})
    async with session_in(project, access([calls(("run_terminal_cmd", {"command": "touch made"})), says(".")])) as (
        engine,
        session,
    ):
        events = await run_turn(engine, session)
        assert record(events) == [
            ("preToolUse", "changed"),
            ("preToolUse", "passed"),
            ("preToolUse", "changed"),
            ("preToolUse", "denied"),
        ]
        assert not engine.state(session).changes


async def test_a_changed_command_runs_in_place_of_the_proposed_one_and_the_model_is_told(project):
    change = 'echo \'{"hookSpecificOutput": {"updatedInput": {"command": "touch other"}}}\''
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": change}]}]}
    write_hooks(project, hooks, ".claude/settings.json")
    async with session_in(project, access([calls(("run_terminal_cmd", {"command": "touch made"})), says(".")])) as (
        engine,
        session,
    ):
        await run_turn(engine, session)
        assert list(engine.state(session).changes) == ["other"]
        assert "It is now: touch other" in results(engine, session)[0]


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_m1_a_hook_widens_no_right_and_what_it_changes_is_dropped_where_nothing_is_kept(project, mode):
    write_hooks(project, {"preToolUse": [{"command": 'echo \'{"permission": "allow"}\'; touch made'}]})
    steps = [WRITE, calls(("list_dir", {"relative_workspace_path": "."})), says("Done.")]
    async with session_in(project, access(steps), mode=mode) as (engine, session):
        events = await run_turn(engine, session)
        assert record(events) == [("preToolUse", "allowed")]  # the write is refused before any hook is asked
        assert f"{mode} mode does not allow write" in results(engine, session)[0]
        assert not engine.state(session).changes


async def test_a_hook_can_have_the_user_asked_and_nobody_there_is_a_no(project):
    write_hooks(project, {"preToolUse": [{"command": 'echo \'{"permission": "ask"}\''}]})
    async with session_in(project, access([WRITE, says("Done.")]), interactive=False) as (engine, session):
        events = await run_turn(engine, session)
        (asked,) = (event for event in events if isinstance(event, ev.ApprovalRequested))
        assert "wants you to be asked" in asked.reason
        assert not engine.state(session).changes


async def test_words_of_a_hook_reach_the_model_and_a_stop_ends_the_turn(project):
    add = 'echo \'{"additional_context": "Mind the <linter>."}\''
    write_hooks(project, {"postToolUse": [{"command": add}]})
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        assert "Mind the <linter>." in results(engine, session)[0]
    write_hooks(project, {"postToolUse": [{"command": "echo '{\"continue\": false}'"}]})
    async with session_in(project, access([WRITE, says("Never.")])) as (engine, session):
        end = (await run_turn(engine, session))[-1]
        assert isinstance(end, ev.TurnFinished)
        assert (end.reason, end.steps) == ("done", 1)


@pytest.mark.parametrize("policy", ["review", "auto"])
async def test_nothing_reaches_the_disk_that_a_hook_before_it_refuses(project, policy):
    configured(f'[edits]\npolicy = "{policy}"\n')
    write_hooks(project, {"beforePromote": [{"command": "test -e allowed", "failClosed": True, "matcher": r"\.txt$"}]})
    async with session_in(project, access([WRITE, says("Done."), says("Again.")])) as (engine, session):
        await run_turn(engine, session)
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        assert not (project / "b.txt").exists()
        assert "b.txt" in engine.state(session).changes
        (project / "allowed").write_text("")
        if policy == "review":
            await submit(engine, cmd.HunkResolve(session=session, path="b.txt", verdict="accept"))
        else:
            await run_turn(engine, session)
        assert (project / "b.txt").read_text() == "x=1\n"


async def test_what_a_hook_after_an_acceptance_changes_waits_for_the_review(project):
    write_hooks(project, {"afterPromote": [{"command": "cat > seen.json; echo y >> b.txt"}]})
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        await submit(engine, cmd.HunkResolve(session=session, path="b.txt", verdict="accept"))
        await engine.wait_idle(session)
        assert (project / "b.txt").read_text() == "x=1\n"
        assert sorted(engine.state(session).changes) == ["b.txt", "seen.json"]
        seen = json.loads(engine.terminal(session).host.shadow.read("seen.json"))
        assert (seen["hook_event_name"], seen["paths"]) == ("afterPromote", ["b.txt"])


async def test_hooks_of_the_user_run_everywhere_and_see_their_own_scripts_and_nothing_else_of_the_home(project):
    home = Path.home() / ".claude"
    (home / "hooks").mkdir(parents=True)
    (home / "secret").write_text("key")
    (home / "hooks" / "look.sh").write_text("cat ~/.claude/secret && exit 2; cat > /dev/null; exit 0\n")
    entry = {"hooks": [{"type": "command", "command": "bash ~/.claude/hooks/look.sh"}]}
    (home / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        events = await run_turn(engine, session)
        assert record(events) == [("preToolUse", "passed")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"hooks": {"PreToolUse": [', "none of its hooks runs: it is not JSON"),
        ('{"hooks": {"PreToolUze": [{"command": "exit 2"}]}}', "there is no such event. Did you mean PreToolUse?"),
        ('{"hooks": {"PreToolUse": [{"matcher": "Bahs", "command": "exit 2"}]}}', "is not the name of a tool here"),
    ],
)
async def test_a_guard_that_does_not_run_is_told_of_once_in_a_session(project, text, why):
    home = Path.home() / ".claude"
    home.mkdir()
    (home / "settings.json").write_text(text)
    async with session_in(project, access([says("Done."), says("Done.")])) as (engine, session):
        seen = [*await run_turn(engine, session), *await run_turn(engine, session)]
        notices = [notice for notice in seen if isinstance(notice, ev.Notice)]
        assert [notice.level for notice in notices if why in notice.message] == ["warning"]


async def test_a_guard_in_a_file_with_comments_and_a_glob_for_a_matcher_refuses_what_it_means(project):
    home = Path.home() / ".claude"
    home.mkdir()
    entry = '{"matcher": "*.py", "hooks": [{"command": "echo no python >&2; exit 2"},]}, // mine'
    (home / "settings.json").write_bytes(f'\ufeff// guards\n{{"hooks": {{"PreToolUse": [{entry}\n]}}}}'.encode())
    refused = calls(("write", {"file_path": "b.py", "contents": "x=1\n"}))
    async with session_in(project, access([refused, WRITE, says("Done.")])) as (engine, session):
        seen = await run_turn(engine, session)
        assert "no python" in results(engine, session)[0]
        assert [*engine.state(session).changes] == ["b.txt"]
        assert "'*.py' is not a valid pattern" in str([notice for notice in seen if isinstance(notice, ev.Notice)])


async def test_a_refusal_behind_a_greeting_counts_and_half_of_one_is_told(project):
    home = Path.home() / ".claude"
    home.mkdir()
    deny = '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not here"}}'
    entry = {"hooks": [{"command": f"echo Welcome; test -e half && echo '{deny[:-2]}' || echo '{deny}'"}]}
    (home / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    async with session_in(project, access([WRITE, says("Done."), WRITE, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        assert "not here" in results(engine, session)[0]
        (project / "half").touch()
        seen = await run_turn(engine, session)
        (notice,) = [event for event in seen if isinstance(event, ev.Notice) and "gave no answer" in event.message]
        assert "no complete JSON object with an answer" in notice.message


async def test_a_refused_message_to_the_running_turn_goes_back_and_the_model_never_sees_it(project):
    refuse = "grep -q 1234 && exit 2 || exit 0"
    write_hooks(project, {"beforeSubmitPrompt": [{"command": refuse}]})
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        host = engine.terminal(session).host
        before = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="Do it"))
        await engine.submit(cmd.TurnSteer(session=session, text="the key is 1234"))
        seen = await read_until(engine, session, ev.TurnFinished, after=before)
        assert "1234" not in told(engine, session)
        assert [event.text for event in seen if isinstance(event, ev.SteerReturned)] == ["the key is 1234"]
        assert host.state is engine.state(session)


async def test_what_a_hook_said_survives_in_the_fold(project):
    write_hooks(project, {"preToolUse": [{"command": "echo no >&2; exit 2"}]})
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        answer = await engine.query(q.HooksQuery(session=session))
        assert isinstance(answer, q.HooksAnswer)
        (row,) = answer.hooks
        assert row.last is not None
        assert (row.trust, row.last.outcome, row.last.message) == ("trusted", "denied", "no")
    async with session_in(project, access([]), cmd.SessionResume(session=session)) as (engine, _):
        assert engine.state(session).hook_results[row.id].outcome == "denied"


async def test_hooks_of_a_plug_in_run_with_its_folder_named(project):
    plugin = project / ".claude" / "plugins" / "guard"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "guard"}')
    (plugin / "hooks").mkdir()
    (plugin / "scripts").mkdir()
    (plugin / "scripts" / "no.sh").write_text('echo "from $(basename "$CLAUDE_PLUGIN_ROOT")" >&2; exit 2\n')
    entry = {"hooks": [{"type": "command", "command": 'bash "${CLAUDE_PLUGIN_ROOT}/scripts/no.sh"'}]}
    (plugin / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    trust(project)
    async with session_in(project, access([WRITE, says("Done.")])) as (engine, session):
        events = await run_turn(engine, session)
        assert record(events) == [("preToolUse", "denied")]
        assert "from guard" in results(engine, session)[0]


async def test_something_that_waits_for_the_user_and_a_compaction_are_told(project):
    refuse = {"command": "cat > /dev/null; exit 2"}
    write_hooks(
        project,
        {
            "notification": [{"command": "cat > /dev/null"}],
            "preCompact": [refuse],
            "preToolUse": [{"command": 'echo \'{"permission": "ask"}\''}],
        },
    )
    async with session_in(project, access([WRITE, says("Done.")]), interactive=False) as (engine, session):
        await run_turn(engine, session)
        messages = len(engine.state(session).messages)
        await submit(engine, cmd.ContextCompact(session=session))
        heard: set[str] = set()
        async with contextlib.aclosing(engine.events(session)) as stream:
            async for envelope in stream:
                heard |= {envelope.event.event} if isinstance(envelope.event, ev.HookRan) else set()
                if heard >= {"notification", "preCompact", "preToolUse"}:
                    break
        await engine.wait_idle(session)
        assert len(engine.state(session).messages) == messages


REWRITES = """python3 -c 'import json, sys
if "original" in json.load(sys.stdin)["tool_input"].get("command", ""):
    print(json.dumps({"hookSpecificOutput": {"updatedToolOutput": "rewritten"}}))'"""


async def test_a_result_that_a_hook_rewrites_is_the_output_of_the_command_in_a_program(project):
    write_hooks(project, {"postToolUse": [{"command": REWRITES}]})
    code = "for word in ('original', 'plain'):\n    print(run_terminal_cmd(f'echo {word}')['output'].strip())"
    steps = [calls(("call_tool", {"name": "run_code", "arguments": {"code": code}})), says("Done.")]
    async with session_in(project, access(steps)) as (engine, session):
        await run_turn(engine, session)
        assert results(engine, session)[0].splitlines()[:2] == ["rewritten", "plain"]
