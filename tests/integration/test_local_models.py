"""`agent-tui -p` with a server of one's own: what it says of itself holds from the first request on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import ProviderError
from core.exits import ExitCode
from core.providers.connection.endpoint import Endpoint
from core.providers.openai.provider import OpenAIProvider
from core.user_dirs import get_config_dir
from tests.support import program
from tests.support.llama_server import MODEL, LlamaServer, count_tokens, llama_server

ID = f"llamacpp/{MODEL}"


async def ask(project: Path, server: LlamaServer, prompt: str, *arguments: str) -> program.Ended:
    """Run one prompt; with `-c` the model is that of the session."""
    model = () if "-c" in arguments else ("--model", ID)
    env = program.environment(None, AGENT_TUI_LOCAL_SERVERS=f"127.0.0.1:{server.port}")
    return await program.run(project, "-p", prompt, *model, *arguments, env=env)


def choose_most(tokens: int) -> None:
    """Limit an answer by the user's configuration."""
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(f'[models."{ID}"]\nmax_answer = {tokens}\n')


def roles(body) -> list[str]:
    return [message["role"] for message in body["messages"]]


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


async def test_a_template_without_tools_gets_tags_in_the_first_request(project):
    async with llama_server(window=32_768) as server:
        ended = await ask(project, server, "Hello")
        [body] = server.prompts
    assert (ended.code, ended.out) == (0, "Hello there.\n")
    assert "tools" not in body
    assert "<execute_bash>" in body["messages"][0]["content"]
    assert "writes its calls as text" in ended.err


async def test_a_template_with_tools_gets_them(project):
    async with llama_server("qwen-2.5", window=32_768) as server:
        ended = await ask(project, server, "Hello")
        [body] = server.prompts
    assert (ended.code, ended.err) == (0, "")
    assert body["tools"]


async def test_a_small_window_is_known_before_the_first_prompt(project):
    async with llama_server("qwen-2.5", window=8192) as server:
        ended = await ask(project, server, "Hello")
        [body] = server.prompts
    assert ended.code == 0
    assert count_tokens(body, with_tools=True) < 4096


@pytest.mark.parametrize("template", ["gemma-2", "mistral-nemo"])
async def test_roles_that_must_alternate_are_merged_in_the_first_request(project, template):
    # The first answer is empty, so the next prompt would follow the first one.
    async with llama_server(template, window=32_768, answers=["", "", "", "Hello there."]) as server:
        first = await ask(project, server, "Hello")
        second = await ask(project, server, "Are you there?", "-c")
        bodies = server.prompts
    assert (first.code, second.code, second.out) == (1, 0, "Hello there.\n")
    assert all(one != other for body in bodies for one, other in zip(roles(body), roles(body)[1:], strict=False))
    assert all(("system" in roles(body)) == (template == "mistral-nemo") for body in bodies)
    assert "Hello" in json.dumps(bodies[-1])


async def test_a_server_that_was_started_again_with_a_smaller_window_gets_shorter_prompts(project):
    async with llama_server("qwen-2.5", window=32_768) as server:
        first = await ask(project, server, "Hello")
        server.window = 4096
        second = await ask(project, server, "And now?", "-c")
        before, after = server.prompts
    assert (first.code, second.code) == (0, 0)
    assert count_tokens(before, with_tools=True) > 4096 > count_tokens(after, with_tools=True)


async def test_a_server_that_was_started_again_without_tools_gets_tags(project):
    async with llama_server("qwen-2.5", window=32_768) as server:
        await ask(project, server, "Hello")
        server.template = "smollm2"
        ended = await ask(project, server, "And now?", "-c")
        before, after = server.prompts
    assert ended.code == 0
    assert "tools" in before
    assert "tools" not in after


async def test_a_window_that_only_a_refusal_names_is_learned_and_the_request_made_smaller(project, monkeypatch):
    # A server that answers no other question than prompts.
    monkeypatch.setattr(LlamaServer, "_sized", lambda self, body: "{}" if "meta" in body or "n_ctx" in body else body)
    async with llama_server("qwen-2.5", window=4096) as server:
        first = await ask(project, server, "Hello")
        asked = len(server.prompts)
        second = await ask(project, server, "And now?", "-c")
        sizes = [count_tokens(body, with_tools=True) for body in server.prompts]
    assert (first.code, first.out, second.code) == (0, "Hello there.\n", 0)
    assert "has a window of 4,096 tokens" in first.err
    assert (asked, len(sizes)) == (2, 3)
    assert sizes[0] > 4096 > max(sizes[1:])


async def test_a_window_that_holds_no_instructions_is_said_to_be_too_small_before_anything_is_sent(project):
    async with llama_server("qwen-2.5", window=1024) as server:
        ended = await ask(project, server, "Hello")
        bodies = server.prompts
    assert ended.code == 1
    assert bodies == []
    assert "has a window of 1,024 tokens" in ended.err
    assert "-c 16384" in ended.err


async def test_an_answer_that_runs_away_is_cut_off_and_is_not_done(project):
    async with llama_server(window=8192, runs_away=True, answers=["I am happy, and you are."]) as server:
        ended = await ask(project, server, "Hello")
        bodies = server.prompts
    assert ended.code == 1
    assert [body["max_tokens"] for body in bodies] == [2048]
    assert "repeated the same words until its answer was cut off" in ended.err


async def test_a_long_answer_that_is_cut_off_again_and_again_ends_at_a_limit(project):
    choose_most(77)
    story = " ".join(f"word{number}" for number in range(5_000))
    async with llama_server(window=8192, answers=[story]) as server:
        ended = await ask(project, server, "Hello", "--output-format", "json")
        bodies = server.prompts
    metadata = json.loads(ended.out)["metadata"]
    assert "not complete" in metadata["stopMessage"]
    assert (ended.code, metadata["stopReason"]) == (ExitCode.LIMIT, "limit")
    assert [body["max_tokens"] for body in bodies] == [77, 77, 77]


@pytest.mark.parametrize(("window", "most"), [(2_900, 1_024), (32_768, 8_192), (131_072, 16_384)])
async def test_the_limit_of_an_answer_follows_the_window(project, window, most):
    async with llama_server(window=window) as server:
        await ask(project, server, "Hello")
        [body] = server.prompts
    assert body["max_tokens"] == most


async def test_how_much_of_a_prompt_was_read_is_told_while_it_is(project):
    async with llama_server(window=32_768) as server:
        ended = await ask(project, server, "Hello", "--output-format", "stream-json")
        [body] = server.prompts
    events = [json.loads(line)["event"] for line in ended.out.splitlines() if '"prompt.read"' in line]
    shares = [event["processed"] / event["total"] for event in events]
    assert body["return_progress"]
    assert shares == sorted(shares)
    assert shares[-1] == 1


async def test_a_server_that_computes_no_embeddings_says_so_at_once(project):
    async with llama_server() as server:
        endpoint = Endpoint(id="llamacpp", label="llama.cpp", base_url=server.url)
        provider = OpenAIProvider(endpoint)
        with pytest.raises(ProviderError, match="does not support embeddings") as caught:
            await provider.embed(MODEL, ["Hello"])
        await provider.close()
    assert (caught.value.code, caught.value.retryable) == ("embeddings_unsupported", False)
