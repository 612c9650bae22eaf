"""Models that are files or command lines: a token that drives names none, and no error repeats a word of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from core.protocol import commands as cmd
from core.providers.registry import resolve_provider
from core.records import list_leaves
from core.transports.http.access import Grant
from core.transports.http.session_routes import find_needed_grant
from tests.support.agent_case import says
from tests.support.http_server import CHAT, PLAN, SESSIONS, TOKENS, prompt, serving
from tests.support.story import access, project_at

AGENTS = "/api/v1/background-composers"
WORD = "hunter2"
NAMED = ("scripted/{file}", " scripted/{file} ", "scripted/{fifo}", "acp/cat {file}", "acp/{file}", "acp/./x")
TEXTS = (
    f"{WORD}:x:0",
    f"{WORD}: x",
    f"- {WORD}: x",
    f"key: '{WORD}",
    f"a: *{WORD}",
    f"%{WORD}\n",
    f"!{WORD} x",
    f"steps:\n - text: {WORD}: x",
    f"steps:\n - finish: {WORD}",
    f"steps:\n - delay_ms: {WORD}",
    f"steps:\n - {WORD}: 1",
    f"{{a: 1, a: {WORD}}}",
    f"[{WORD}",
    f"<<: {WORD}",
    f"a: &{WORD} 1\nb: &{WORD} ]",
    f"turns:\n - match: '({WORD}'\n   steps: [x]",
    "\x01" + WORD,
)


@pytest.fixture
def outside(tmp_path) -> dict[str, str]:
    """A file and a pipe that lie beside the project."""
    (tmp_path / "secret").write_text(f"{WORD}:x:0\n")
    os.mkfifo(tmp_path / "fifo")
    return {"file": str(tmp_path / "secret"), "fifo": str(tmp_path / "fifo")}


def list_requests(session: str, model: str) -> list[tuple[str, dict[str, Any]]]:
    """Every request that can name a model."""
    commands = f"{SESSIONS}/{session}/commands"
    return [
        (SESSIONS, {"model": model}),
        (CHAT, prompt(model=model)),
        (CHAT, prompt(model=model, conversationId=f"conv_{session.partition('_')[2]}")),
        (PLAN, prompt(model=model)),
        (AGENTS, {"taskDescription": "x", "model": model}),
        (commands, {"type": "model.set", "model": model}),
        (commands, {"type": "best.run", "text": "x", "models": ["anthropic/x", model]}),
        (commands, {"type": "provider.configure", "provider": "openai", "model": model}),
    ]


@pytest.mark.parametrize("named", NAMED)
async def test_n37_a_token_that_drives_names_no_model_that_is_a_file_or_a_command(tmp_path, outside, named):
    project = project_at(tmp_path / "project")
    async with serving(project, access(says("ok"))) as served, served.client(TOKENS.drive) as client:
        session = (await client.post(SESSIONS, json={})).json()["session"]
        for path, body in list_requests(session, named.format(**outside)):
            answer = await client.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "grant_missing"), (path, body)
            assert WORD not in answer.text


async def test_n37_who_may_approve_names_one_and_is_told_nothing_of_a_file_that_is_no_script(tmp_path, outside):
    project = project_at(tmp_path / "project")
    async with serving(project) as served, served.client() as client:
        for model in ("scripted/{file}", "scripted/{fifo}", "scripted//dev/zero"):
            answer = await client.post(CHAT, json=prompt(model=model.format(**outside)))
            assert "script" in answer.text
            assert WORD not in answer.text


@pytest.mark.parametrize("text", TEXTS)
def test_n37_an_error_of_a_script_repeats_no_word_of_the_file(tmp_path, text):
    file = tmp_path / "script.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        resolve_provider(f"scripted/{file}")
    assert WORD not in refused.value.format_with_hint()


def test_n37_a_pipe_and_a_device_are_no_scripts_and_nothing_waits_for_them(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match="can't be read"):
            resolve_provider(f"scripted/{path}")


def test_n37_every_command_with_a_field_for_a_model_needs_the_right_to_approve_a_file():
    naming = [kind for kind in list_leaves(cmd.Command) if {"model", "models"} & set(kind.__struct_fields__)]
    assert {kind.__name__ for kind in naming} >= {"SessionOpen", "ModelSet", "BestRun", "ProviderConfigure"}
    for kind in naming:
        fields = {"text": "x", "provider": "openai", "model": "scripted//etc/passwd", "models": ("a/b", "acp/sh -c x")}
        arguments = {name: value for name, value in fields.items() if name in kind.__struct_fields__}
        assert find_needed_grant(kind(**arguments)) is Grant.APPROVE


@pytest.mark.parametrize("model", ["anthropic/claude", "acp/claude", "acp/codex", "openrouter/a/b", ""])
def test_n37_a_model_of_an_api_and_a_known_agent_are_named_by_who_drives(model):
    assert find_needed_grant(cmd.ModelSet(model=model)) is Grant.DRIVE
