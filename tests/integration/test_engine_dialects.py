"""The engine with models without function calls, over the wire to a real model server."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from core.dialects.command import COMPLETION_MARKS
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import FileEditDocument, TerminalCommandDocument
from core.user_dirs import get_config_dir
from tests.integration.test_engine_provider import (
    assert_prefixes_hold,
    assert_valid,
    opened,
    project,  # noqa: F401 (a fixture)
    serving,
)
from tests.support.history import faults
from tests.support.open_session import engine_in, run_turn
from tests.support.provider_streams import Step

EDIT = '<file-edit filePath="a.txt">\n------- SEARCH\ntwo\n=======\nTWO\n+++++++ REPLACE\n</file-edit>'
READ = '<tool_call>\n{"name": "read_file", "arguments": {"target_file": "a.txt"}}\n</tool_call>'
TAGS = (
    f"I look.\n{READ}",
    f"<chat>I propose this.</chat>\n{EDIT}",
    "Now a check.\n<execute_bash>\ncat a.txt; exit 3\n</execute_bash>",
    "It is `two` no more.<finish></finish>",
)
COMMANDS = (
    "THOUGHT: I look.\n\n```bash\ncat a.txt\n```",
    "I forgot the block.",
    "THOUGHT: I make a note.\n\n```bash\necho noted > note.txt && echo written\n```",
    f"THOUGHT: All is done.\n\n```bash\necho {COMPLETION_MARKS[0]}\n```",
)


@pytest.fixture(autouse=True)
def spoken():
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(
        '[models."openai/tiny-1"]\ndialect = "tags"\n[models."openai/tiny-2"]\ndialect = "command"\n'
        '[models."anthropic/tiny-1"]\ndialect = "tags"\n[models."anthropic/tiny-2"]\ndialect = "command"\n'
    )


async def allowed(engine, session: str, prompt: str) -> list[object]:
    """A turn in which every question of the gate gets a yes."""
    before = engine.state(session).seq

    async def say_yes() -> None:
        async with contextlib.aclosing(engine.events(session, after=before)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.ApprovalRequested):
                    answer = cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision="allow_once")
                    assert isinstance(await engine.submit(answer), cmd.Ack)

    answering = asyncio.create_task(say_yes())
    try:
        return await run_turn(engine, session, prompt)
    finally:
        answering.cancel()


def documents(events) -> list[object]:
    all_documents = [event.document for event in events if isinstance(event, ev.DocumentFinished)]
    return sorted(all_documents, key=lambda document: document.sequence)


def assert_no_functions(server) -> None:
    for request in server.answered:
        assert "tools" not in request.json
        assert "tool_calls" not in request.raw.decode()
        assert "tool_use" not in request.raw.decode()
        assert_valid(request)
    assert_prefixes_hold(server.answered)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("piece", [3, 1000])
async def test_a_turn_in_tags_reads_edits_and_runs_a_command(project, monkeypatch, api, piece):  # noqa: F811
    async with serving(monkeypatch, *[Step(text=text, piece=piece) for text in TAGS]) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, f"{api}/tiny-1")
            events = await allowed(engine, session, "Make it loud")
            all_documents = documents(events)
            assert [document.__struct_config__.tag for document in all_documents] == [
                "text", "tool_call", "text", "file_edit", "text", "terminal_command", "text"
            ]  # fmt: skip
            texts = [document.content for document in all_documents if document.__struct_config__.tag == "text"]
            assert texts == ["I look.", "I propose this.", "Now a check.", "It is `two` no more."]
            [edit] = [document for document in all_documents if isinstance(document, FileEditDocument)]
            assert (edit.metadata.status, edit.metadata.file_path, edit.metadata.added) == ("success", "a.txt", 1)
            [ran] = [document for document in all_documents if isinstance(document, TerminalCommandDocument)]
            assert (ran.metadata.exit_code, ran.metadata.command) == (3, "cat a.txt; exit 3")
            assert events[-1].reason == "done"
            assert faults(engine.state(session).messages) == []
        assert_no_functions(server)
        conversation = str(server.answered[-1].json["messages"])
        assert "exit code 3" in conversation
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_a_file_is_read_on_by_the_functions_that_a_model_takes_for_pythons(project, monkeypatch):  # noqa: F811
    (project / "long.py").write_text("".join(f"line {number}\n" for number in range(1, 251)))
    snippets = ("open_file('long.py')", "scroll_down()", "print(search_dir('line 24', './'))")
    steps = [Step(text=f"<execute_ipython>\n{snippet}\n</execute_ipython>") for snippet in snippets]
    async with serving(monkeypatch, *steps, Step(text="Read.")) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, "openai/tiny-1")
            events = await run_turn(engine, session, "Read it")
            done = [(event.tool, event.status) for event in events if isinstance(event, ev.ToolFinished)]
            assert done == [("read_file", "completed"), ("read_file", "completed"), ("grep", "completed")]
            assert faults(engine.state(session).messages) == []
        assert_no_functions(server)
        first, second, third = (message["content"] for message in server.answered[-1].json["messages"][-5::2])
        assert "line 100\n" in first
        assert "line 101\n" not in first
        assert "line 101\n" in second
        assert "long.py" in third


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_turn_in_commands_reads_and_writes_until_the_mark(project, monkeypatch, api):  # noqa: F811
    async with serving(monkeypatch, *COMMANDS) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, f"{api}/tiny-2")
            events = await allowed(engine, session, "Make a note")
            all_documents = documents(events)
            assert [
                document.metadata.exit_code
                for document in all_documents
                if isinstance(document, TerminalCommandDocument)
            ] == [0, 0]
            assert events[-1].reason == "done"
            assert events[-1].steps == 4
            assert faults(engine.state(session).messages) == []
        assert_no_functions(server)
        first, second, third, fourth = [request.json["messages"][-1] for request in server.answered]
        assert "Recommended workflow" in str(first)
        assert "<returncode>0</returncode>" in str(second)
        assert "exactly ONE command" in str(third)
        assert "written" in str(fourth)


async def test_a_session_goes_on_in_another_dialect_after_a_restart(project, monkeypatch):  # noqa: F811
    async with serving(monkeypatch, f"I look.\n{READ}", "So.", COMMANDS[3], Step(text="Natively.")) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, "openai/tiny-1")
            await allowed(engine, session, "Look")
        async with engine_in(project) as engine:
            assert isinstance(await engine.submit(cmd.SessionResume(session=session)), cmd.Ack)
            await engine.wait_idle(session)
            for model in ("openai/tiny-2", "anthropic/tiny-9"):
                assert isinstance(await engine.submit(cmd.ModelSet(session=session, model=model)), cmd.Ack)
                await engine.wait_idle(session)
                assert (await allowed(engine, session, "Go on"))[-1].reason == "done"
        for request in server.answered:
            assert_valid(request)
        assert "tool_use" in server.answered[-1].raw.decode()
