"""What is no Unicode (halves of characters, other encodings, arguments, names) end neither turn nor engine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.transports.stdio_client import connect
from tests.support.program import PROGRAM, ask, environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.trust import make_trusted, trust

HALVES = "\ud83d\ude00"
ENCODED = {
    "latin-1": "# Größe, naïve café\nname = 'x'\nprint('Ärger über café')\n".encode("latin-1"),
    "shift-jis": "# 日本語の表示テスト\nname = 'x'\nprint('漢字ソ')\n".encode("shift-jis"),
    "gbk": "# 中文注释说明\nname = 'x'\nprint('汉字')\n".encode("gbk"),
    "invalid": b"# ok \xff\xfe\x80\nname = 'x'\nprint('\xc3\x28 \xed\xa0\x80')\n",
}
MARK = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture
def project(tmp_path) -> Path:
    return make_trusted(tmp_path / "project")


def odd(parent: Path) -> Path:
    """A trusted project whose name is no UTF-8."""
    root = Path(os.fsdecode(os.fsencode(parent) + b"/d\xff\xe9"))
    root.mkdir()
    trust(root)
    return root


def call(name: str, **arguments: object) -> Step:
    return Step(calls=[Call(name=name, arguments=arguments)])


def edits(text: str) -> dict[str, Step]:
    """Ways to change the second line, next to lines with bytes that can't be shown, each of a file of its own."""
    first, second, third = text.splitlines(keepends=True)
    whole = f"{first}name = 'y'\n{third}"
    part = {"old_string": f"{second}{third}", "new_string": f"name = 'y'\n{third}"}
    return {
        "a.py": call("search_replace", file_path="a.py", old_string="name = 'x'", new_string="name = 'y'"),
        "b.py": call("search_replace", file_path="b.py", old_string=text, new_string=whole),
        "c.py": call("write", file_path="c.py", contents=whole),
        "d.py": call("multi_edit", file_path="d.py", edits=[part]),
    }


@pytest.mark.parametrize("encoding", ENCODED)
async def test_n16b_p9_an_edit_beside_bytes_that_are_no_utf_8_keeps_all_of_them(project, encoding):
    data = ENCODED[encoding]
    text = data.decode("utf-8", "replace") if encoding == "invalid" else data.decode(encoding)
    steps: list[Step | str] = ["Done."]
    for name, edit in edits(text).items():
        (project / name).write_bytes(data)
        steps[-1:-1] = [call("read_file", target_file=name), edit]
    ended, requests = await ask(project, *steps, arguments=("--accept", "all", "--output-format", "json"))
    assert ended.code == 0, ended.err
    assert {path.name: path.read_bytes() for path in project.iterdir() if path.suffix == ".py"} == dict.fromkeys(
        edits(text), data.replace(b"'x'", b"'y'")
    )
    assert json.loads(ended.out)["status"] == "completed"
    assert len(requests) == len(steps)


async def test_n16b_a_byte_that_can_not_be_told_is_refused_and_not_guessed(project):
    data = b"a = '\xe9'\nb = '\xe8'\n"
    (project / "f.py").write_bytes(data)
    steps = [call("read_file", target_file="f.py"), call("write", file_path="f.py", contents=f"c = '{MARK}'\n"), "No."]
    ended, requests = await ask(project, *steps, arguments=("--accept", "all"))
    assert (project / "f.py").read_bytes() == data
    assert "not UTF-8" in requests[2].raw.decode()
    assert ended.code == 0


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
async def test_n16b_an_emoji_that_is_streamed_as_two_halves_is_one(project, dialect, form):
    step = Step(text=f"ab{HALVES}c \udc00 {HALVES}\ud83d", reasoning=f"hm {HALVES}", piece=1)
    ended, _ = await ask(project, step, dialect=dialect, arguments=("--output-format", form))
    assert ended.code == 0, ended.err
    assert f"ab\U0001f600c {MARK} \U0001f600{MARK}" in ended.out
    if form == "stream-json":
        lines = [json.loads(line) for line in ended.out.splitlines()]
        thoughts = [record["event"] for record in lines if record.get("event", {}).get("type") == "document.finished"]
        assert any(thought["document"]["content"] == "hm \U0001f600" for thought in thoughts)


async def test_n16b_halves_in_the_arguments_of_a_call_reach_the_file_as_one(project):
    raw = json.dumps({"file_path": "new.py", "contents": "x = '\U0001f600'\n"}, ensure_ascii=False)
    cut = raw.replace("\U0001f600", HALVES)
    steps = [Step(calls=[Call(name="write", arguments=cut)], piece=1), "Done."]
    ended, _ = await ask(project, *steps, arguments=("--accept", "all"))
    assert ended.code == 0, ended.err
    assert (project / "new.py").read_text() == "x = '\U0001f600'\n"


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
async def test_n16b_an_argument_that_is_no_utf_8_is_a_prompt_like_others(project, form):
    async with provider_server(["Fine."]) as server:
        arguments = ("-p", os.fsdecode(b"what is \xff?"), "--model", "openai/tiny-1", "--output-format", form)
        ended = await run(project, *arguments, env=environment(server))
        assert (ended.code, ended.err) == (0, "")
        assert "Fine." in ended.out
        assert f"what is {MARK}?" in server.answered[0].json["messages"][-1]["content"]
    listed = await run(project, "sessions", "--runs", env=environment(None))
    assert f"what is {MARK}?" in listed.out


async def test_n16b_p10_a_directory_and_files_whose_names_are_no_utf_8_are_worked_in(tmp_path):
    root = odd(tmp_path)
    (root / os.fsdecode(b"f\xe9.txt")).write_text("one\n")
    steps = [call("list_dir"), call("write", file_path="new.txt", contents="two\n"), "Done."]
    for form in ("text", "json", "stream-json"):
        ended, requests = await ask(root, *steps, arguments=("--accept", "all", "--output-format", form))
        assert ended.code == 0, ended.err
        assert len(requests) == 3
        assert (root / "new.txt").read_text() == "two\n"
    for front in ("sessions", "review"):
        ended = await run(root, front, env=environment(None))
        assert (ended.code, "Traceback" in ended.err) == (0, False)


async def test_n16b_variables_that_are_no_utf_8_are_told_or_passed_over(project):
    async with provider_server(["Fine."]) as server:
        odd_value = os.fsdecode(b"\xff\xfe")
        ended = await run(project, "-p", "x", "--model", "openai/m", env=environment(server, ODD=odd_value))
        assert (ended.code, ended.err) == (0, "")
        keyed = environment(server, OPENAI_API_KEY=f"{odd_value}0123456789abcdef")
        ended = await run(project, "-p", "x", "--model", "openai/m", env=keyed)
        assert ended.code == 1
        assert "OPENAI_API_KEY is not a key" in ended.err


async def test_n16b_the_engine_of_the_screen_outlives_all_of_it(tmp_path):
    root = odd(tmp_path)
    (root / "f.py").write_bytes(ENCODED["latin-1"])
    step = Step(text=f"ab{HALVES}c", piece=1)
    edit = call("search_replace", file_path="f.py", old_string="name = 'x'", new_string="name = 'y'")
    async with provider_server([step, edit, step]) as server:
        program = ("/usr/bin/env", *(f"{k}={v}" for k, v in environment(server).items()), *PROGRAM)
        client = await connect(ScreenArguments(directory=root, program=program))
        opened = await client.submit(cmd.SessionOpen(model="openai/tiny-1"))
        assert isinstance(opened, cmd.Ack)
        for text in ("\udcff what?", "edit it"):
            after = opened.seq
            stream = client.events(opened.session, after=after)
            assert isinstance(await client.submit(cmd.TurnSubmit(session=opened.session, text=text)), cmd.Ack)
            async for envelope in stream:
                if isinstance(envelope.event, ev.TurnFinished) and envelope.seq > after:
                    opened = cmd.Ack(session=opened.session, seq=envelope.seq)
                    assert envelope.event.reason == "done"
                    break
            await stream.aclose()
        file = await client.query(q.FileQuery(session=opened.session, path="f.py", side="workspace"))
        diff = await client.query(q.DiffQuery(session=opened.session, path="f.py"))
        assert isinstance(file, q.FileAnswer)
        assert isinstance(diff, q.DiffAnswer)
        await client.close()
