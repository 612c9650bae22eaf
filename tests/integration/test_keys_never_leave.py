"""A key of ours that a model, a tool or a file repeats is in no log, no output and no message to anybody."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from core import secrets
from core.engine.session.recorder import EventRedactor
from core.protocol import events as ev
from core.secrets import MASK
from core.sessions.store import SessionStore
from tests.support.program import KEY, environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.trust import make_trusted, trust

FORMS = ("text", "json", "stream-json")


@pytest.fixture
def project(tmp_path) -> Path:
    return make_trusted(tmp_path / "project")


def kept(project: Path) -> dict[str, bytes]:
    """Every file of the sessions of a project."""
    place = SessionStore(project).sessions_path
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("form", FORMS)
async def test_n14_k2_a_key_that_the_model_repeats_is_in_no_log_and_no_output(project, dialect, form):
    command = Call(name="run_terminal_cmd", arguments={"command": f"echo {KEY}"})
    write = Call(name="write", arguments={"file_path": "conf.py", "contents": f"KEY = '{KEY}'\n"})
    steps = [
        Step(text=f"The key is {KEY}, you know.", reasoning=f"I think {KEY}", calls=[write, command], piece=3),
        Step(text=f"Said: {KEY}", piece=1),
    ]
    async with provider_server(steps) as server:
        arguments = ("--model", f"{dialect}/m", "--output-format", form)
        ended = await run(project, "-p", f"Use {KEY}", *arguments, env=environment(server))
    assert KEY not in ended.out + ended.err
    assert MASK in ended.out
    files = kept(project)
    blobs = {name for name, data in files.items() if KEY.encode() in data}
    assert {name for name in blobs if not re.search(r"/(blobs|layers)/", name)} == set()  # the bytes of the edit
    assert any(MASK.encode() in data for name, data in files.items() if name.endswith("log.jsonl"))
    assert KEY not in server.answered[1].raw.decode()


async def test_n14_what_is_noted_of_an_accepted_edit_holds_no_key_nor_the_beginning_of_one(project):
    contents = f"KEY = '{KEY}'\n{'x' * (199 - len(KEY) // 2)}{KEY}\n"
    steps = [Step(calls=[Call(name="write", arguments={"file_path": "conf.py", "contents": contents})]), "Done."]
    async with provider_server(steps) as server:
        arguments = ("--model", "openai/m", "--accept", "all", "--output-format", "json")
        await run(project, "-p", "Write it.", *arguments, env=environment(server))
    assert (project / "conf.py").read_text() == contents
    noted = {name: data for name, data in kept(project).items() if not re.search(r"/(blobs|layers)/", name)}
    assert any(name.endswith("journal.jsonl") for name in noted)
    assert {name for name, data in noted.items() if KEY[: len(KEY) // 2].encode() in data} == set()


async def test_n14_a_key_that_stands_in_the_rules_of_a_project_is_neither_kept_nor_sent(project):
    (project / "AGENTS.md").write_text(f"Call the service with {KEY}.\n")
    (project / ".cursor" / "rules").mkdir(parents=True)
    (project / ".cursor" / "rules" / "a.mdc").write_text(f"---\nglobs: '*.py'\n---\nThe key is {KEY}.\n")
    (project / "a.py").write_text("x = 1\n")
    trust(project)
    async with provider_server(["Done."]) as server:
        ended = await run(project, "-p", "See @a.py", "--model", "openai/m", env=environment(server))
    assert ended.code == 0, ended.err
    sent = server.answered[0].raw.decode()
    assert "Call the service with" in sent
    assert "The key is" in sent
    assert KEY not in sent
    assert [name for name, data in kept(project).items() if KEY.encode() in data] == []


async def test_n14_an_edit_whose_text_holds_a_key_reaches_the_file_as_it_is(project):
    write = Call(
        name="write", arguments={"file_path": "conf.py", "contents": f"A = '{KEY}'\nB = 'sk-other-0123456789abcdef'\n"}
    )
    async with provider_server([Step(calls=[write]), "Done."]) as server:
        arguments = ("--model", "openai/m", "--accept", "all")
        ended = await run(project, "-p", "x", *arguments, env=environment(server))
    assert ended.code == 0, ended.err
    assert (project / "conf.py").read_text() == f"A = '{KEY}'\nB = 'sk-other-0123456789abcdef'\n"


async def test_n14_a_key_of_another_provider_is_masked_too(project):
    other = "another-providers-key-0123456789"
    async with provider_server([Step(text=f"It is {other}.", piece=2)]) as server:
        env = environment(server, ANTHROPIC_API_KEY=other)
        ended = await run(project, "-p", "x", "--model", "openai/m", env=env)
    assert other not in ended.out
    assert MASK in ended.out


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())
    secrets.register_secret(KEY)
    secrets.register_secret("ollama")
    yield KEY
    secrets.list_masked_values.cache_clear()


@pytest.mark.parametrize("size", [1, 2, 5, 11, 40])
def test_n14_k2_a_key_in_pieces_is_masked_while_it_flows(known, size):
    door, text = EventRedactor(), f"sk sk-test {known} and {known[:9]}! ollama "
    flowed = ""
    for start in range(0, len(text), size):
        passed = door.redact_event(ev.DocumentDelta(id="d", text=text[start : start + size]))
        flowed += passed.text if isinstance(passed, ev.DocumentDelta) else ""
    assert flowed == text.replace(known, MASK)


def test_n14_two_texts_that_flow_at_once_are_told_apart(known):
    door = EventRedactor()
    half = len(known) // 2
    assert door.redact_event(ev.DocumentDelta(id="a", text=known[:half])) is None
    assert door.redact_event(ev.ToolOutput(call="b", text=known[half:])) == ev.ToolOutput(call="b", text=known[half:])
    assert door.redact_event(ev.DocumentDelta(id="a", text=known[half:])) == ev.DocumentDelta(id="a", text=MASK)


def test_n14_a_short_word_that_stands_for_a_key_is_left_in_texts(known):
    event = ev.Notice(level="info", message="ask ollama")
    assert EventRedactor().redact_event(event) is event


HIDDEN = "a\x7f\x9b31m\x85\u202eevil\u2066\u200bz\ufeff\U000e0041 \N{WAVING HAND SIGN} é"


@pytest.mark.parametrize("form", ["json", "stream-json"])
async def test_n14_json_shows_nothing_that_a_terminal_would_act_on_and_keeps_its_value(project, form):
    async with provider_server([Step(text=HIDDEN, piece=100)]) as server:
        ended = await run(project, "-p", "x", "--model", "openai/m", "--output-format", form, env=environment(server))
    assert ended.code == 0
    assert not any(
        0x7F <= ord(character) < 0xA0 or character in "\u202e\u2066\u200b\ufeff\U000e0041" for character in ended.out
    )
    assert "é" in ended.out
    last = json.loads(ended.out if form == "json" else ended.out.splitlines()[-1])
    response = last if form == "json" else last["response"]
    assert response["documents"][0]["content"] == HIDDEN


async def test_n14_text_shows_nothing_that_a_terminal_would_act_on(project):
    async with provider_server([Step(text=HIDDEN, piece=100)]) as server:
        ended = await run(project, "-p", "x", "--model", "openai/m", env=environment(server))
    assert not any(
        0x7F <= ord(character) < 0xA0 or character in "\u202e\u2066\u200b\ufeff\U000e0041" for character in ended.out
    )
