"""Tools as the settings, the mode and the request narrow them, and what `/tools` tells of each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.cli.arguments import parse
from core.cli.print_mode.headless import run_print
from core.config.loading import load_settings
from core.engine import Engine, EngineOptions
from core.errors import ConfigError
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage, UserMessage
from core.protocol.queries import ToolsAnswer, ToolsQuery
from core.protocol.tools import ToolRow, ToolSettings
from core.user_dirs import get_config_dir
from tests.support.agent_case import Step, calls, says
from tests.support.subagents import access, converse, project_at

FILES = {"src/app.py": "import os\n", "src/deep/one.py": "import os\n", "tests/test_app.py": "import os\n"}
LOOKS = [
    calls(
        ("grep", {"pattern": "import os"}),
        ("read_file", {"target_file": "tests/test_app.py"}),
        ("read_file", {"target_file": "src/app.py"}),
    ),
    says("I looked."),
]


@contextlib.asynccontextmanager
async def opened(root: Path, steps: list[Step], config: str = "") -> AsyncIterator[tuple[Engine, str]]:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(config)
    engine = Engine(root, options=EngineOptions(watch=False), models=access({"it": steps}))
    reply = await engine.submit(cmd.SessionOpen())
    assert isinstance(reply, cmd.Ack), reply
    try:
        yield engine, reply.session
    finally:
        await engine.close()


def results(engine: Engine, session: str) -> list[str]:
    return [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]


async def ask(engine: Engine, session: str, **limits: ToolSettings) -> list[ev.AnyEvent]:
    """One turn with these limits of its request."""
    seen: list[ev.AnyEvent] = []
    async with contextlib.aclosing(engine.events(session, after=engine.state(session).seq)) as stream:
        reply = await engine.submit(cmd.TurnSubmit(session=session, text="[part it]", available_tools=limits))
        assert isinstance(reply, cmd.Ack), reply
        async for envelope in stream:
            seen.append(envelope.event)
            if isinstance(envelope.event, ev.TurnFinished):
                return seen
    raise AssertionError("the events ended")


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


async def test_a_tool_finds_and_reads_nothing_outside_of_its_paths(project):
    config = '[tools.grep]\nallowed_paths = ["src/"]\n[tools.read_file]\nallowed_paths = ["src/*.py"]\n'
    async with opened(project, LOOKS, config) as (engine, session):
        await converse(engine, session, "[part it]")
        hits, refused, read = results(engine, session)
        assert "src/app.py" in hits
        assert "src/deep/one.py" in hits
        assert "tests/test_app.py" not in hits
        assert "tests/test_app.py is off limits to the agent" in refused
        assert "allowed_paths" in refused
        assert "import os" in read
        contents = [message.content for message in engine.state(session).messages if isinstance(message, UserMessage)]
        assert any("`grep`: only in src/" in content for content in contents), "the model knows before it calls"


async def test_a_request_narrows_its_turn_alone(project):
    steps = [*LOOKS, *LOOKS]
    async with opened(project, steps) as (engine, session):
        await ask(engine, session, grep=ToolSettings(enabled=False), read_file=ToolSettings(scope="changed"))
        grep, *reads = results(engine, session)
        assert "grep is turned off by the request" in grep
        assert all("is off limits to the agent" in text for text in reads)
        await ask(engine, session)
        grep, *reads = results(engine, session)[3:]
        assert "src/app.py" in grep
        assert all("import os" in text for text in reads)


async def test_a_request_can_not_widen_and_names_tools_that_there_are(project):
    async with opened(project, LOOKS, "[tools.grep]\nenabled = false\n") as (engine, session):
        await ask(engine, session, grep=ToolSettings(enabled=True))
        assert "grep is turned off in the settings (tools.grep.enabled)" in results(engine, session)[0]
        wrong = cmd.TurnSubmit(session=session, text="x", available_tools={"gerp": ToolSettings()})
        refused = await engine.submit(wrong)
        assert isinstance(refused, cmd.Reject)
        assert "there is no tool with that name. Did you mean grep" in refused.message


@pytest.mark.parametrize("path", ["/etc", "~/x", "../x", "src/../../x"])
def test_p21_a_path_that_leads_out_of_the_project_is_refused_where_it_stands(tmp_path, path):
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(f'[tools.grep]\nallowed_paths = ["{path}"]\n')
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path)
    assert "config.toml, line 1: `tools.grep`: allowed_paths has" in caught.value.message
    assert "points outside the project" in caught.value.message


async def test_a_tool_that_there_is_not_is_told_with_its_table(project):
    async with opened(project, [], "[modes.ask.tools.gerp]\nenabled = false\n") as (engine, session):
        notices: list[str] = []
        async with contextlib.aclosing(engine.events(session, after=0)) as stream:
            async for envelope in stream:
                notices += [envelope.event.message] if isinstance(envelope.event, ev.Notice) else []
                if notices:
                    break
        assert any("`modes.ask.tools.gerp` has no effect" in notice and "grep" in notice for notice in notices)


def test_p_narrows_its_tools_in_the_words_of_the_configuration_or_of_a_request(project, capsys, monkeypatch):
    narrowed = '{"grep": {"enabled": false}, "read_file": {"allowedPaths": ["src/"]}}'
    monkeypatch.setattr("sys.stdin", None)
    arguments = parse(["-p", "[part it]", "--tools", narrowed, "--output-format", "json", str(project)])
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    assert run_print(arguments, models=access({"it": LOOKS})) == ExitCode.DONE
    response = json.loads(capsys.readouterr().out)
    search, refused, read = [
        document["metadata"]["result"] for document in response["documents"] if document["type"] == "tool_call"
    ]
    assert "turned off by the request" in search["data"]
    assert "off limits to the agent" in refused["data"]
    assert read["status"] == "success"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("read_file", "write tables of tools"),
        ('{"grep": false}', "expected `object`"),
        ('{"grep": {"enabled": "no"}}', "enabled"),
        ('{"grep": {"paths": []}}', "paths"),
        ('{"grep": {"allowedPaths": ["../x"]}}', "points outside the project"),
    ],
)
def test_tools_that_are_no_tables_are_refused_on_the_command_line(given, words, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["-p", "x", "--tools", given])
    assert caught.value.code == ExitCode.USAGE
    assert words.lower() in capsys.readouterr().err.replace("\n", " ").lower()


async def test_only_what_is_pending_is_in_the_scope_changed(project):
    steps = [
        calls(("write", {"file_path": "src/new.py", "contents": "x = 1\n"})),
        calls(("read_file", {"target_file": "src/new.py"}), ("read_file", {"target_file": "src/app.py"})),
        says("Done."),
    ]
    async with opened(project, steps, '[tools.read_file]\nscope = "changed"\n') as (engine, session):
        await converse(engine, session, "[part it]")
        _, new, old = results(engine, session)
        assert "x = 1" in new
        assert "src/app.py is off limits to the agent" in old


async def test_a_mode_narrows_a_tool_and_a_command_that_can_not_be_kept_to_paths_does_not_run(project):
    config = '[modes.ask.tools.grep]\nenabled = false\n[tools.run_terminal_cmd]\nallowed_paths = ["src/"]\n'
    steps = [calls(("grep", {"pattern": "os"}), ("run_terminal_cmd", {"command": "cat tests/test_app.py"})), says(".")]
    async with opened(project, steps, config) as (engine, session):
        assert isinstance(await engine.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)
        await converse(engine, session, "[part it]")
        grep, command = results(engine, session)
        assert "grep is turned off in ask mode" in grep
        assert "can't be limited to some paths of the project" in command


async def test_the_limits_of_a_request_hold_for_its_subagents(project):
    steps: Any = {
        "it": [calls(("task", {"description": "Look", "prompt": "[part low]"})), says("Done.")],
        "low": [calls(("read_file", {"target_file": "src/app.py"})), says("No.")],
    }
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    engine = Engine(project, options=EngineOptions(watch=False), models=access(steps))
    try:
        reply = await engine.submit(cmd.SessionOpen())
        assert isinstance(reply, cmd.Ack)
        await ask(engine, reply.session, read_file=ToolSettings(allowed_paths=("tests/",)))
        [child] = engine.state(reply.session).subagents
        seen = [envelope.event async for envelope in engine.events(child)]
        [ended] = [event for event in seen if isinstance(event, ev.ToolFinished)]
        assert ended.status == "denied"
    finally:
        await engine.close()


def row(answer: ToolsAnswer, name: str) -> ToolRow:
    return next(tool for tool in answer.tools if tool.name == name)


async def test_each_tool_says_what_it_costs_or_why_it_is_absent(project):
    config = "[tools.delete_file]\nenabled = false\n[tools.write]\nrequire_approval = true\n"
    config += '[tools.grep]\nallowed_paths = ["src/"]\nscope = "changed"\n'
    async with opened(project, [says("Hello.")], config) as (engine, session):
        before = await engine.query(ToolsQuery(session=session))
        assert isinstance(before, ToolsAnswer), before
        read = row(before, "read_file")
        assert (read.state, read.access) == ("listed", "read")
        assert read.tokens > 50
        assert "open_file" in read.aliases
        assert read.reason == ""
        assert row(before, "grep").reason == "only in src/; only files with pending changes"
        assert row(before, "write").reason == "the user is asked before each call"
        assert row(before, "delete_file").state == "absent"
        assert "tools.delete_file.enabled" in row(before, "delete_file").reason
        assert row(before, "apply_patch").reason == "an edit format of other models"
        await converse(engine, session, "[part it]")
        after = await engine.query(ToolsQuery(session=session))
        assert isinstance(after, ToolsAnswer)
        assert row(after, "task").state == "listed"
        assert isinstance(await engine.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)
        await engine.wait_idle(session)
        asking = await engine.query(ToolsQuery(session=session))
        assert isinstance(asking, ToolsAnswer)
        assert row(asking, "write").reason == "ask mode does not grant it"
        assert {tool.name for tool in before.tools} == {tool.name for tool in asking.tools}


async def test_the_example_of_the_page_about_settings_holds(project):
    page = (Path(__file__).parents[2] / "docs" / "settings-and-trouble.md").read_text()
    example = page.partition("## Tools")[2].partition("```toml\n")[2].partition("```")[0]
    async with opened(project, LOOKS, example) as (engine, session):
        answer = await engine.query(ToolsQuery(session=session))
        assert isinstance(answer, ToolsAnswer)
        assert row(answer, "delete_file").state == "absent"
        assert row(answer, "web_fetch").state != "absent"
        assert isinstance(await engine.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)
        await engine.wait_idle(session)
        asking = await engine.query(ToolsQuery(session=session))
        assert isinstance(asking, ToolsAnswer)
        assert "turned off in ask mode" in row(asking, "web_fetch").reason
        await converse(engine, session, "[part it]")
        assert all("import os" in result for result in results(engine, session)), "src and tests are among its paths"


async def test_words_of_other_agents_scroll_search_and_finish(project):
    (project / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 501)))
    steps = [
        calls(("open_file", {"path": "long.txt", "limit": 100})),
        calls(("scroll_down", {})),
        calls(("scroll_down", {}), ("scroll_up", {})),
        calls(("search_dir", {"search_term": "line 499", "dir": "."})),
        calls(("finish", {"result": "It has 500 lines."})),
        says("never said"),
    ]
    async with opened(project, steps) as (engine, session):
        seen = await converse(engine, session, "[part it]")
        first, second, third, back, hits, _ = results(engine, session)
        assert "line 100\n" in first
        assert "line 101\n" not in first
        assert "line 101\n" in second
        assert "line 200\n" in second
        assert "line 201\n" in third
        assert "line 101\n" in back
        assert "line 100\n" not in back
        assert "long.txt" in hits
        [end] = [event for event in seen if isinstance(event, ev.TurnFinished)]
        assert end.reason == "done"
        contents = [
            event.document.content
            for event in seen
            if isinstance(event, ev.DocumentFinished) and event.document.content
        ]
        assert contents[-1] == "It has 500 lines."
        assert not any("never said" in content for content in contents)


async def test_calls_in_the_words_of_other_agents_do_what_they_say(project):
    steps = [
        calls(("Grep", {"pattern": "import os", "output_mode": "files_with_matches", "head_limit": 1, "offset": 1})),
        calls(("Grep", {"pattern": "import os", "output_mode": "content", "offset": 2, "-n": True})),
        calls(
            ("update_plan", {"plan": [{"step": "Look", "status": "completed"}, {"step": "Mend", "status": "pending"}]})
        ),
        calls(("TodoWrite", {"todos": [{"content": "Mend", "status": "completed", "activeForm": "Mending"}]})),
        calls(("goto", {"line_number": 1}), ("open_file", {"path": "src/app.py"}), ("goto", {"line_number": 1})),
        says("I looked."),
    ]
    async with opened(project, steps) as (engine, session):
        await converse(engine, session, "[part it]")
        files, hits, _, _, nothing, first, again = results(engine, session)
        assert files.split("\n")[1:] == ["src/deep/one.py"]
        assert "2 to 2 shown" in files
        assert hits.count("import os") == 1
        assert "tests/test_app.py" in hits
        assert [(todo.content, todo.status) for todo in engine.state(session).todos] == [("Mend", "completed")]
        assert "target_file" in nothing
        assert first == again


async def test_scrolling_without_a_file_is_refused_in_words(project):
    async with opened(project, [calls(("scroll_down", {})), says("Well.")]) as (engine, session):
        await converse(engine, session, "[part it]")
        assert "missing required field `target_file`" in results(engine, session)[0]
