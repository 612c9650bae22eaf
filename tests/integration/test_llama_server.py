"""`agent-tui -p` with llama.cpp's real server and small real weights, whose words mean nothing: what is sent counts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from core.exits import ExitCode
from core.protocol.messages import UserMessage
from core.providers.base import AnswerForm
from core.providers.catalog.capabilities import find_capabilities
from core.providers.catalog.server_reports import AskedServer, fetch_reports
from core.providers.connection.endpoint import Endpoint
from core.user_dirs import get_config_dir
from tests.support import program, provider_calls
from tests.support.llama_box import real_llama
from tests.support.llama_server import RECORDED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ID = "llamacpp/smol"


@pytest.fixture
def project(tmp_path) -> Path:
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(f'[models."{ID}"]\nmax_answer = 8\n')
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def template(tmp_path):
    def write(name: str) -> tuple[str, str]:
        path = tmp_path / f"{name}.jinja"
        path.write_text(json.loads(RECORDED[name]["props"])["chat_template"])
        return "--chat-template-file", str(path)

    return write


async def ask(project: Path, port: int, prompt: str, *arguments: str) -> program.Ended:
    model = () if "-c" in arguments else ("--model", ID)
    env = program.environment(None, AGENT_TUI_LOCAL_SERVERS=f"127.0.0.1:{port}")
    return await program.run(project, "-p", prompt, *model, *arguments, env=env, seconds=500)


def post(port: int, body: object) -> tuple[int, str]:
    """What the server says to a request that this program would not make."""
    address = f"http://127.0.0.1:{port}/v1/chat/completions"
    request = Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=400) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refusal:
        return refusal.code, refusal.read().decode()


async def able_at(port: int):
    url = f"http://127.0.0.1:{port}/v1"
    await fetch_reports(AskedServer(Endpoint(id="llamacpp", label="", base_url=url), None, "openai"), "smol")
    return find_capabilities("llamacpp", "smol", wire="chat", origin=url)


@pytest.mark.parametrize("name", sorted(RECORDED))
async def test_the_server_says_what_was_recorded_of_it(template, name):
    recorded = json.loads(RECORDED[name]["props"])["chat_template_caps"]
    async with real_llama("-c", "2048", *template(name)) as port:
        able = await able_at(port)
    assert (able.tools, able.takes_system) == (recorded["supports_tools"], recorded["supports_system_role"])
    assert (able.context_window, able.alternates) == (2048, name in {"gemma-2", "mistral-nemo"})


async def test_two_prompts_in_a_row_are_answered_by_a_template_whose_roles_alternate(project, template):
    # An answer of eight tokens is cut off, so reminders follow it, and the turn ends at a limit.
    async with real_llama("-c", "8192", *template("gemma-2")) as port:
        refused = await asyncio.to_thread(post, port, {"messages": [{"role": "user", "content": "a"}] * 2})
        first = await ask(project, port, "Say hello.", "--max-steps", "1")
        second = await ask(project, port, "Say it again.", "-c", "--max-steps", "1")
    assert refused[0] == 400
    assert "roles must alternate" in refused[1]
    assert {first.code, second.code} == {ExitCode.LIMIT}
    assert "400" not in first.err + second.err
    assert "writes its calls as text" in first.err


async def test_an_answer_has_the_form_that_is_asked_for_where_no_tool_is_called(template):
    fields = {"fit": {"type": "boolean"}}
    schema = {"type": "object", "required": ["fit"], "properties": fields, "additionalProperties": False}
    texts = []
    async with real_llama("-c", "2048", *template("qwen-2.5")) as port:
        server = SimpleNamespace(openai_url=f"http://127.0.0.1:{port}/v1")
        provider = provider_calls.connect(server, "openai")
        for is_alone in (False, True):
            form = AnswerForm(schema, is_alone)
            asked = provider_calls.request(UserMessage(content="Is it fit?"), answer=form, max_tokens=60)
            texts.append((await provider_calls.ask(provider, asked)).text)
        await provider.close()
    assert not texts[0].startswith("{")
    assert json.loads(texts[1])["fit"] in (True, False)


async def test_a_window_that_is_too_small_is_refused_by_us_and_one_that_grew_is_used(project, template):
    async with real_llama("-c", "1024", *template("qwen-2.5")) as port:
        small = await ask(project, port, "Say hello.")
    assert (small.code, small.out) == (ExitCode.FAILED, "")
    assert "has a window of 1,024 tokens" in small.err
    async with real_llama("-c", "8192", *template("qwen-2.5"), port=port) as port:
        large = await ask(project, port, "Say hello.", "-c", "--max-steps", "1")
    assert large.code == ExitCode.LIMIT
    assert "window" not in large.err
