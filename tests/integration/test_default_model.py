from __future__ import annotations

import json
import os

import pytest
from msgspec.structs import replace

from core.config.loading import load_settings
from core.config.settings import ProviderSettings, Settings
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.providers.catalog import listing
from core.providers.connection.keys import store_key
from core.providers.discovery import find_default_model
from core.user_dirs import get_config_dir
from tests.support.open_session import run_turn
from tests.support.program import environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Step
from tests.support.routed import engine_of, of

KEY = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(listing, "LOCAL_SECONDS", 50)


def configured(text: str) -> Settings:
    (get_config_dir()).mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(text)
    return load_settings()


async def everyone_says(project) -> set[str]:
    """The model that the rule, the engine's list of models and a session that is opened begin with."""
    settings = load_settings()
    engine = Engine(project, options=EngineOptions(watch=False))
    listed = await engine.query(q.ModelsQuery(discover=False))
    answer = await engine.query(q.ModelsQuery())
    opened = await engine.submit(cmd.SessionOpen())
    begun = engine.state(opened.session).model
    await engine.close()
    return {(await find_default_model(settings)).id, listed.default, answer.default, begun}


async def test_a_key_with_an_address_of_the_users_leads_everybody_to_the_same_model(monkeypatch, tmp_path):
    async with provider_server(models=["qwen-a", "qwen-b"]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        assert await everyone_says(tmp_path) == {"openai/qwen-a"}
        assert {request.key for request in server.requests} == {KEY}


async def test_an_address_in_the_environment_needs_no_key(monkeypatch, tmp_path):
    async with provider_server(models=["only"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        assert await everyone_says(tmp_path) == {"openai/only"}


async def test_the_usual_model_of_a_key_is_taken_without_asking_anybody(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert await everyone_says(tmp_path) == {"openai/gpt-6.1-terra"}
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert await everyone_says(tmp_path) == {"anthropic/claude-sonnet-5-5"}


async def test_a_stored_key_counts_as_one_in_the_environment_does(tmp_path):
    store_key("deepseek", KEY, base_url="https://api.deepseek.com")
    assert await everyone_says(tmp_path) == {"deepseek/deepseek-v4-pro"}


async def test_a_key_in_the_keyring_is_found_when_there_is_no_other(monkeypatch, tmp_path):
    monkeypatch.setattr("keyring.get_password", lambda _, name: KEY if name.startswith("groq ") else None)
    assert await everyone_says(tmp_path) == {"groq/openai/gpt-oss-120b"}
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    assert await everyone_says(tmp_path) == {"mistral/mistral-medium-latest"}


async def test_a_provider_of_the_users_own_comes_before_a_key_in_the_environment(monkeypatch, tmp_path):
    async with provider_server(models=["theirs"]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("WORK_API_KEY", "sk-of-work-0123456789")
        configured(f'[providers.work]\nbase_url = "{server.openai_url}"\n')
        assert await everyone_says(tmp_path) == {"work/theirs"}
        assert {request.key for request in server.requests} == {"sk-of-work-0123456789"}


async def test_a_configured_model_wins_over_everything(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    configured('model = "ollama/mine"\n')
    assert await everyone_says(tmp_path) == {"ollama/mine"}


async def test_a_local_server_that_merely_runs_is_offered_and_not_taken(monkeypatch, tmp_path):
    async with provider_server(models=["small"]) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.openai_url.removesuffix("/v1"))
        assert await everyone_says(tmp_path) == {""}
        answer = await Engine(tmp_path).query(q.ModelsQuery())
        assert [model.id for model in answer.models] == ["ollama/small"]
        configured(f'[providers.ollama]\nbase_url = "{server.openai_url}"\n')
        assert await everyone_says(tmp_path) == {"ollama/small"}


async def test_a_server_that_lists_nothing_gives_way_to_the_next_and_says_why(monkeypatch, tmp_path):
    async with provider_server(models=[]) as server:
        configured(f'[providers.work]\nbase_url = "{server.openai_url}"\n')
        assert (await find_default_model(load_settings())).reason == f"work at {server.openai_url}: It lists no model."
        monkeypatch.setenv("XAI_API_KEY", KEY)
        assert await everyone_says(tmp_path) == {"xai/grok-4.7"}


async def test_an_address_that_was_typed_is_kept_with_its_key_and_its_model(tmp_path):
    async with provider_server(["Hello."], models=["theirs-1"]) as server:
        engine = Engine(tmp_path, options=EngineOptions(watch=False))
        url = server.openai_url
        for command in (
            cmd.ProviderConfigure(provider="work", base_url=url, key="sk-of-work-0123456789"),
            cmd.ProviderConfigure(provider="work", model="work/theirs-1"),
        ):
            assert isinstance(await engine.submit(command), cmd.Ack)
        listed = await engine.query(q.ModelsQuery())
        await engine.close()
        assert "work/theirs-1" in {model.id for model in listed.models}
        assert await everyone_says(tmp_path) == {"work/theirs-1"}
        assert {request.key for request in server.requests} == {"sk-of-work-0123456789"}
    settings = load_settings()
    assert (settings.model, settings.providers["work"].base_url) == ("work/theirs-1", url)
    refused = await Engine(tmp_path).submit(cmd.ProviderConfigure(provider='x"]\n[limits', base_url=url))
    assert isinstance(refused, cmd.Reject)


async def test_the_program_says_the_same_on_every_way(tmp_path):
    async with provider_server(["Hello."], models=["qwen-a"]) as server:
        env = environment(server)
        del env["ANTHROPIC_API_KEY"], env["ANTHROPIC_BASE_URL"]
        doctor = await run(tmp_path, "doctor", env=env)
        answer = await run(tmp_path, "-p", "hello", "--output-format", "json", env=env)
        (sent,) = server.answered
    (model_line,) = [line for line in doctor.out.splitlines() if line.startswith("model ")]
    assert model_line.split()[1] == json.loads(answer.out)["model"] == f"openai/{sent.json['model']}" == "openai/qwen-a"
    assert f"the first model at {server.openai_url}" in model_line


def test_every_known_provider_has_a_model_to_begin_with_or_can_not_have_one():
    from core.providers.catalog.presets import KNOWN

    assert [name for name, preset in KNOWN.items() if not preset.suggested] == [
        "azure",
        "ollama",
        "lmstudio",
        "llamacpp",
        "vllm",
    ]
    assert Settings(providers={"a": ProviderSettings()}).providers["a"].key_command == ""


async def test_a_key_goes_into_the_header_that_is_named_with_the_query_and_nowhere_else(tmp_path):
    async with provider_server(["Hello.", "Again."]) as server:
        text = 'base_url = "{}"\nkey_header = "api-key"\nkey_command = "echo key-of-azure-0123456789"\n'
        text += 'query = {{ "api-version" = "2025-04-01-preview" }}\n'
        configured(
            f"[providers.azure]\n{text.format(server.openai_url)}[providers.mine]\nkind = 'anthropic'\n"
            f"{text.format(server.anthropic_url)}"
        )
        for model in ("azure/my-deployment", "mine/m"):
            done = await run(tmp_path, "-p", "hello", "--model", model, env=dict(os.environ))
            assert done.code == 0, done.err
        for request in server.answered:
            assert request.headers["api-key"] == "key-of-azure-0123456789"
            assert "authorization" not in request.headers
            assert "x-api-key" not in request.headers
            assert "api-version=2025-04-01-preview" in request.path
        assert [sent_request.json["model"] for sent_request in server.answered] == ["my-deployment", "m"]
        assert [sent_request.path.partition("?")[0] for sent_request in server.answered] == [
            "/v1/chat/completions",
            "/v1/messages",
        ]


async def test_a_key_of_a_command_that_is_refused_is_asked_for_anew(tmp_path):
    async with provider_server([Step(status=401, error="expired"), "Hello."]) as server:
        count = tmp_path / "runs"
        configured(
            f'[providers.mine]\nbase_url = "{server.openai_url}"\n'
            f'key_command = "echo x >> {count}; echo key-$(wc -l < {count})-0123456789"\n'
        )
        engine, session = await engine_of(tmp_path, replace(load_settings(), model="mine/m"))
        assert of(await run_turn(engine, session), ev.TurnFinished)[0].reason == "failed"
        assert of(await run_turn(engine, session), ev.TurnFinished)[0].reason == "done"
        assert [request.key for request in server.answered] == ["key-1-0123456789", "key-2-0123456789"]
        await engine.close()
