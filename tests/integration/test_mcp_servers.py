"""MCP servers through the real engine, in a real box: what they write waits for the review, whatever they do."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.mcp import server as server_module
from core.mcp import session_servers
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import QuestionAnswer
from core.protocol.messages import ToolMessage, UserMessage
from core.user_dirs import get_config_dir
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.processes import list_processes

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"


def script(root: Path, *steps: tuple[str, dict[str, Any]] | str) -> str:
    played = [
        step if isinstance(step, str) else {"tool_calls": [{"name": step[0], "arguments": step[1]}]} for step in steps
    ]
    path = root / "script.json"
    path.write_text(json.dumps(played))
    return f"scripted/{path}"


def script_turns(root: Path, *turns: list[tuple[str, dict[str, Any]]]) -> str:
    """A model that makes these calls, turn by turn, and says that each is done."""
    played = [
        {
            "steps": [
                *({"tool_calls": [{"name": name, "arguments": arguments}]} for name, arguments in calls),
                {"text": "Done."},
            ]
        }
        for calls in turns
    ]
    path = root / "turns.json"
    path.write_text(json.dumps({"turns": played}))
    return f"scripted/{path}"


def small(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "call_tool", {"name": f"mcp__small__{tool}", "arguments": json.dumps(arguments)}


def configure(policy: str = "auto", *faults: str, permissions: str = "", **more: Any) -> None:
    """The user's own configuration: the small server, and the policy of commands."""
    place = get_config_dir()
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text(f'[commands]\npolicy = "{policy}"\n{permissions}')
    entry = {"command": "python3", "args": ["${workspaceFolder}/server.py", *faults], **more}
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    shutil.copy(SERVER, root / "server.py")
    return root


def results(engine: Any, session: str) -> list[ToolMessage]:
    return [message for message in engine.state(session).messages if isinstance(message, ToolMessage)]


def told(engine: Any, session: str) -> str:
    messages = engine.state(session).messages
    return "\n".join(message.content for message in messages if isinstance(message, UserMessage))


async def test_s17_i4_a_tool_is_offered_under_its_servers_name_and_what_it_writes_is_a_pending_hunk(tmp_path, project):
    configure()
    model = script(tmp_path, small("write", path="b.txt", text="two\n"), small("read", path="b.txt"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert "mcp__small__write: Writes a file." in told(engine, session)
        wrote, read = results(engine, session)
        assert wrote.content == "written\n[changed: created b.txt; pending review]"
        assert read.content == "two"
        change = engine.state(session).changes["b.txt"]
        assert (change.operation, change.origin.tool) == ("create", "mcp__small__write")
        assert not (project / "b.txt").exists()
    assert list_processes(str(project / "server.py")) == []


async def test_a_server_sees_what_is_pending_and_what_another_tool_proposed_since_it_was_started(tmp_path, project):
    configure()
    edit = ("search_replace", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
    model = script(tmp_path, small("read", path="a.txt"), edit, small("read", path="a.txt"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        before, _, after = results(engine, session)
        assert (before.content, after.content) == ("one", "two")


def counted(engine: Any, session: str) -> list[str]:
    lines = [result.content.partition("\n")[0] for result in results(engine, session)]
    return [line for line in lines if line.isdigit()]


async def test_a_server_that_writes_keeps_what_it_holds_in_memory_and_each_file_waits_for_the_review(tmp_path, project):
    configure("auto", "counting")
    count = small("count")
    model = script_turns(tmp_path, [count, count, count], [count], [small("read", path=".counted/log.txt")])
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert counted(engine, session) == ["1", "2", "3"]
        assert "changed: created .counted/log.txt, .counted/page-1.yml" in results(engine, session)[0].content
        last = results(engine, session)[2].content
        assert "created .counted/page-3.yml" in last
        assert "back to the project's version: .counted/page-1.yml" in last
        assert sorted(engine.state(session).changes) == [
            ".counted/log.txt",
            ".counted/page-2.yml",
            ".counted/page-3.yml",
        ]
        assert not (project / ".counted").exists()
        await submit(engine, cmd.HunkResolve(session=session, path=".counted/log.txt", verdict="accept"))
        assert (project / ".counted/log.txt").read_text() == "call 1\ncall 2\ncall 3\n"
        await run_turn(engine, session)
        assert counted(engine, session)[-1] == "4"
        change = engine.state(session).changes[".counted/log.txt"]
        assert change.operation == "edit"
        await run_turn(engine, session)
        assert results(engine, session)[-1].content == "call 1\ncall 2\ncall 3\ncall 4"
    assert list_processes(str(project / "server.py")) == []


async def test_a_server_that_writes_is_started_anew_for_what_others_changed_and_for_what_was_rejected(
    tmp_path, project
):
    configure("auto", "counting")
    count = small("count")
    edit = ("search_replace", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
    model = script_turns(tmp_path, [count, edit, count, count], [count])
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert counted(engine, session) == ["1", "1", "2"]
        await submit(engine, cmd.HunkResolve(session=session, path=".counted/log.txt", verdict="reject"))
        await run_turn(engine, session)
        assert counted(engine, session)[-1] == "1"
        assert "log.txt" in str(engine.state(session).changes)


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_m1_plan_and_ask_call_what_says_that_it_reads_and_throw_away_what_it_writes(tmp_path, project, mode):
    configure()
    model = script(tmp_path, small("write", path="b.txt", text="x"), small("lie"), small("read", path="a.txt"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await submit(engine, cmd.ModeSet(session=session, mode=mode))
        await run_turn(engine, session)
        refused, lied, read = results(engine, session)
        assert "calls only tools that declare themselves read-only" in refused.content
        assert (lied.content, read.content) == ("read", "one")
        assert not engine.state(session).changes
        assert sorted(path.name for path in project.iterdir()) == ["a.txt", "server.py"]


async def test_a_rule_refuses_a_tool_and_a_server_that_wants_it_is_asked_about_each_time(tmp_path, project):
    configure(permissions='[permissions]\ndeny = ["Mcp(small:write)"]\nallow = ["Mcp(small:guarded)"]\n')
    model = script(tmp_path, small("write", path="b.txt", text="x"), small("guarded"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=False) as (engine, session):
        await run_turn(engine, session)
        denied, guarded = results(engine, session)
        assert "The rule Mcp(small:write)" in denied.content
        assert "Nobody can be asked" in guarded.content


async def test_a_call_is_asked_about_with_its_arguments_and_an_answer_for_good_is_a_rule(tmp_path, project):
    configure("confirm")
    model = script(tmp_path, small("say", text="hi"), small("say", text="again"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        asked = (await read_until(engine, session, ev.ApprovalRequested))[-1]
        assert asked.subject == "small:say"
        assert '"text": "hi"' in asked.explanation
        answer = cmd.ApprovalAnswer(session=session, id=asked.id, decision="allow_always")
        assert isinstance(await engine.submit(answer), cmd.Ack)
        await read_until(engine, session, ev.TurnFinished)
        assert [result.content for result in results(engine, session)] == ["hi", "again"]


async def test_i3_a_server_of_the_project_runs_after_a_yes_and_is_asked_about_anew_when_its_entry_changes(
    tmp_path, project
):
    configure()
    entry = json.loads((get_config_dir() / "mcp.json").read_text())
    (get_config_dir() / "mcp.json").unlink()
    place = project / ".mcp.json"
    place.write_text(json.dumps(entry))
    model = script(tmp_path, small("say", text="hi"), "Done.", "Done.", small("say", text="hi"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
        assert "python3" in asked.questions[0].text
        assert list_processes(str(project / "server.py")) == []
        await answer_question(engine, session, asked, "yes")
        await read_until(engine, session, ev.TurnFinished)
        assert results(engine, session)[0].content == "hi"
        entry["mcpServers"]["small"]["env"] = {"PLAIN": "1"}
        place.write_text(json.dumps(entry))
        before = engine.state(session).seq
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        again = (await read_until(engine, session, ev.QuestionAsked, after=before))[-1]
        assert "+env PLAIN: 1" in again.questions[0].text
        await answer_question(engine, session, again, "no")
        await read_until(engine, session, ev.TurnFinished, after=before)
        assert "small can't be used: the user has not approved it." in told(engine, session)


@pytest.mark.parametrize(("word", "ran"), [("Yes", True), ("never", False), ("what is it?", False)])
async def test_i3_a_yes_in_the_users_own_word_counts_and_anything_else_starts_nothing(tmp_path, project, word, ran):
    configure()
    (get_config_dir() / "mcp.json").rename(project / ".mcp.json")
    model = script(tmp_path, small("say", text="hi"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
        answers = (QuestionAnswer(question=asked.questions[0].id, text=word),)
        assert isinstance(
            await engine.submit(cmd.QuestionReply(session=session, id=asked.id, answers=answers)), cmd.Ack
        )
        await read_until(engine, session, ev.TurnFinished)
        assert (results(engine, session)[0].content == "hi") is ran


async def answer_question(engine: Any, session: str, asked: ev.QuestionAsked, option: str) -> None:
    answers = (QuestionAnswer(question=asked.questions[0].id, options=(option,)),)
    reply = await engine.submit(cmd.QuestionReply(session=session, id=asked.id, answers=answers))
    assert isinstance(reply, cmd.Ack), reply


@pytest.mark.parametrize("how", ["die", "flood", "endless", "hang"])
async def test_a_server_that_misbehaves_ends_with_its_call_and_the_next_call_starts_it_anew(
    tmp_path, project, how, monkeypatch
):
    monkeypatch.setattr(server_module, "MAX_UNSOLICITED", 4 << 20)
    configure(timeout=2000 if how == "hang" else 60_000)
    model = script(tmp_path, small("misbehave", how=how), small("say", text="back"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        failed, reply = results(engine, session)
        reasons = {
            "die": "It ended (exit code 3). Last lines of its log: its last words",
            "flood": "It floods its client",
            "endless": "It floods its client",
            "hang": "It said nothing for 2 s",
        }
        assert failed.is_error
        assert reasons[how] in failed.content
        assert reply.content == "back"
    assert list_processes(str(project / "server.py")) == []


async def test_s9_what_a_server_forked_is_gone_with_the_session(tmp_path, project):
    configure()
    model = script(tmp_path, small("misbehave", how="orphan"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert results(engine, session)[0].content == "did orphan"
        assert list_processes("4711.25")
    assert list_processes("4711.25") == []


async def test_a_server_that_can_not_be_started_is_told_once_with_the_end_of_its_log(tmp_path, project):
    configure("auto", "broken")
    async with session_in(project, model=script(tmp_path, "Done.", "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        await run_turn(engine, session)
        assert told(engine, session).count("no licence") == 1
        assert "\x1b" not in told(engine, session)


async def test_a_tool_that_is_not_as_the_protocol_wants_it_costs_none_of_the_others(tmp_path, project):
    configure("auto", "odd")
    model = script(tmp_path, small("read", path="a.txt"), small("either"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        read, either = results(engine, session)
        assert read.content == "one"
        assert "KeyError" in either.content
        assert '{"anyOf":[{"required":["a"]},{"required":["b"]}],"type":"object"}' in told(engine, session)


async def test_a_server_that_never_answers_holds_a_prompt_up_once_and_no_later_step(tmp_path, project, monkeypatch):
    waits: list[float | None] = []
    wait = asyncio.wait

    async def record(tasks: Any, **more: Any) -> Any:
        is_list = any(task.get_name().startswith("mcp tools") for task in tasks)
        waits.extend([more["timeout"]] if is_list and more.get("timeout") else [])
        return await wait(tasks, **more)

    monkeypatch.setattr(session_servers, "FIRST_WAIT", 0.123)
    monkeypatch.setattr(session_servers.asyncio, "wait", record)
    configure("auto", "mute")
    read = ("read_file", {"target_file": "a.txt"})
    model = script(tmp_path, read, read, "Done.")
    async with session_in(project, model=model, trust=True, preload=False) as (engine, session):
        await run_turn(engine, session)
        assert len(waits) == 1
        assert 0 < waits[0] <= 0.123
    assert list_processes(str(project / "server.py")) == []


async def wait_for_server(engine: Any, session: str) -> q.ServerRow:
    """The row of the server, once it runs."""
    async with asyncio.timeout(50):
        while (row := (await engine.query(q.ServersQuery(session=session))).servers[0]).state != "running":
            continue
    return row


async def test_the_tools_that_nobody_knows_yet_are_asked_for_while_the_user_still_types(tmp_path, project):
    configure()
    async with session_in(project, model=script(tmp_path, "Done."), trust=True) as (engine, session):
        assert (await wait_for_server(engine, session)).name == "small"
    async with session_in(project, model=script(tmp_path, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        assert "mcp__small__read" in told(engine, session)
        assert (await engine.query(q.ServersQuery(session=session))).servers[0].state == "idle"


async def test_i3_a_server_of_the_project_is_not_started_while_the_user_types_unless_it_has_a_yes(tmp_path, project):
    configure()
    place = get_config_dir() / "mcp.json"
    (project / ".mcp.json").write_text(place.read_text())
    place.unlink()
    async with session_in(project, model=script(tmp_path, "Done."), trust=True) as (engine, session):
        await engine.server_access(session).servers.start_listing()
        assert (await engine.query(q.ServersQuery(session=session))).servers[0].state == "unasked"
        assert list_processes(str(project / "server.py")) == []
        assert not engine.state(session).questions


@pytest.mark.parametrize("interactive", [True, False])
async def test_a_call_waits_for_the_server_that_is_starting_and_no_prompt_does(
    tmp_path, project, monkeypatch, interactive
):
    monkeypatch.setattr(session_servers, "FIRST_WAIT", 0.0)
    configure()
    model = script(tmp_path, small("read", path="a.txt"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=interactive) as (engine, session):
        await run_turn(engine, session)
        assert "- small is still starting: its tools are listed when it is ready" in told(engine, session)
        assert "mcp__small__read" in told(engine, session)
        assert [result.content for result in results(engine, session)] == ["one"]


async def test_a_search_for_tools_waits_for_servers_that_are_starting(tmp_path, project, monkeypatch):
    monkeypatch.setattr(session_servers, "FIRST_WAIT", 0.0)
    configure()
    model = script(tmp_path, ("search_tools", {"query": "read a file"}), "Done.")
    async with session_in(project, model=model, trust=True, interactive=False) as (engine, session):
        await run_turn(engine, session)
        assert "mcp__small__read" in results(engine, session)[0].content


async def test_a_turn_that_is_stopped_while_a_server_starts_tells_of_its_call(tmp_path, project, monkeypatch):
    monkeypatch.setattr(session_servers, "FIRST_WAIT", 0.0)
    configure("auto", "mute")
    model = script(tmp_path, small("read", path="a.txt"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await submit(engine, cmd.TurnSubmit(session=session, text="Go"))
        await read_until(engine, session, ev.StepFinished)
        await submit(engine, cmd.TurnInterrupt(session=session))
        seen = await read_until(engine, session, ev.TurnFinished)
        assert [event.call for event in seen if isinstance(event, ev.ToolRequested)] == [
            event.call for event in seen if isinstance(event, ev.ToolFinished)
        ]
        assert len(results(engine, session)) == 1


async def test_a_server_that_does_not_tell_its_resources_has_its_tools_all_the_same(tmp_path, project, monkeypatch):
    monkeypatch.setattr(session_servers, "FIRST_WAIT", 0.0)
    configure("auto", "secretive")
    model = script(tmp_path, "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        while "read" not in str((await engine.query(q.ServersQuery(session=session))).servers[0].tools):
            continue
        await run_turn(engine, session)
        assert "mcp__small__read" in told(engine, session)


async def test_a_changed_list_is_told_and_strays_on_its_output_are_passed_over(tmp_path, project):
    configure()
    model = script(tmp_path, small("misbehave", how="noise"), small("misbehave", how="change"), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert [result.content for result in results(engine, session)] == ["did noise", "did change"]
        assert told(engine, session).count("mcp__small__more7") == 1


async def test_a_long_answer_is_spilled_and_escape_sequences_reach_nobody(tmp_path, project):
    configure()
    red, long = small("say", text="\x1b[31mred\x1b[0m "), small("say", text="0123456789", times=20_000)
    model = script(tmp_path, red, long, "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        seen = await run_turn(engine, session)
        short, cut = results(engine, session)
        assert short.content == "red"
        assert len(cut.content) < 36_000
        assert re.search(
            r"characters left out.*; the whole output \(200,000 characters\): read_file output:", cut.content
        )
        assert any("about 50,000 tokens" in event.message for event in seen if isinstance(event, ev.Notice))


async def test_a_picture_goes_to_the_model_as_an_attachment(tmp_path, project):
    from PIL import Image

    configure()
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(buffer, "PNG")
    picture = {"type": "image", "data": base64.b64encode(buffer.getvalue()).decode(), "mimeType": "image/png"}
    model = script(tmp_path, small("say", result={"content": [picture]}), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert [attachment.media_type for attachment in results(engine, session)[0].attachments] == ["image/png"]


async def test_progress_is_shown_in_the_row_of_the_call(tmp_path, project):
    configure()
    async with session_in(project, model=script(tmp_path, small("misbehave", how="progress"), "."), trust=True) as (
        engine,
        session,
    ):
        seen = await run_turn(engine, session)
        assert [output.text for output in seen if isinstance(output, ev.ToolOutput)] == [
            "1/2 ␛[31mat it\n",
            "2/2 ␛[31mat it\n",
        ]


async def test_tools_that_take_too_much_of_the_window_are_found_by_search_tools(tmp_path, project):
    configure("auto", "many")
    model = script(tmp_path, ("call_tool", {"name": "search_tools", "arguments": '{"query": "write a file"}'}), "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert "- small: 207 tools" in told(engine, session)
        assert "mcp__small__write" not in told(engine, session)
        content = results(engine, session)[0].content
        assert content.startswith("- mcp__small__write: Writes a file.")
        assert '"path"' in content


def elicit(**params: Any) -> tuple[str, dict[str, Any]]:
    return small("ask", method="elicitation/create", params={"message": "Well?", **params})


async def test_a_server_of_before_asks_the_user_and_a_secret_is_refused_with_a_notice(tmp_path, project):
    configure(timeout=1000)
    name_schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    secret = {"type": "object", "properties": {"password": {"type": "string"}}}
    page = elicit(mode="url", url="https://login.example/", elicitationId="1")
    model = script(tmp_path, elicit(requestedSchema=name_schema), elicit(requestedSchema=secret), page, "Done.")
    async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
        answers = (QuestionAnswer(question="name", text="Ada"),)
        assert isinstance(
            await engine.submit(cmd.QuestionReply(session=session, id=asked.id, answers=answers)), cmd.Ack
        )
        seen = await read_until(engine, session, ev.QuestionAsked, after=engine.state(session).seq)
        await answer_question(engine, session, seen[-1], "done")
        seen = await read_until(engine, session, ev.TurnFinished)
        notices = [notice.message for notice in seen if isinstance(notice, ev.Notice)]
        assert "The MCP server small asked for a secret in a form (password), which was refused." in notices
        assert [json.loads(result.content) for result in results(engine, session)] == [
            {"action": "accept", "content": {"name": "Ada"}},
            {"action": "decline"},
            {"action": "accept"},
        ]


async def test_a_server_is_told_the_project_as_the_box_sees_it_and_gets_no_model(tmp_path, project):
    configure()
    params = {"messages": [], "maxTokens": 10}
    roots, sampled = small("ask", method="roots/list"), small("ask", method="sampling/createMessage", params=params)
    async with session_in(project, model=script(tmp_path, roots, sampled, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        root_list, refused = (json.loads(result.content) for result in results(engine, session))
        assert root_list == {"roots": [{"uri": project.as_uri(), "name": "workspace"}]}
        assert "not supported" in refused["message"]
