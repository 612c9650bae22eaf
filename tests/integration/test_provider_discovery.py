from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys

import pytest

from core.config.settings import ProviderSettings, Settings
from core.providers.catalog import listing
from core.providers.catalog.presets import KNOWN
from core.providers.discovery import discover_models
from tests.support.provider_server import provider_server

LIMIT = listing.LOCAL_SECONDS
LOCAL = [name for name, known in KNOWN.items() if known.local]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Whoever answers on this machine is heard, however busy it is."""
    monkeypatch.setattr(listing, "LOCAL_SECONDS", 50)


@contextlib.asynccontextmanager
async def listening(answer: bytes | None, *, together: int = 1):
    """A socket that sends `answer` to whoever connects and closes; None: it never says anything.

    With `together` it says nothing before so many have asked.
    """
    end, asked, all_there = asyncio.Event(), list[bytes](), asyncio.Event()

    async def serve(reader, writer):
        if answer is None:
            await end.wait()
        else:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            if len(asked) == together:
                all_there.set()
            await all_there.wait()
            writer.write(answer)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        end.set()
        server.close()


@pytest.fixture
async def nothing():
    """Settings whose local servers are ports of this machine on which nothing listens."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    server.close()
    await server.wait_closed()
    return settings(**dict.fromkeys(LOCAL, url))


def settings(**urls: str) -> Settings:
    return Settings(providers={name: ProviderSettings(base_url=url) for name, url in urls.items()})


def status(discovery, name):
    return next(provider for provider in discovery.providers if provider.id == name)


async def test_when_nothing_is_there_nothing_is_waited_for(nothing):
    discovery = await discover_models(nothing)
    assert (discovery.models, discovery.default) == ((), "")
    assert {provider.id for provider in discovery.providers} == set(KNOWN)
    assert all(status(discovery, name).problem == "not running" for name in LOCAL)
    assert status(discovery, "openai").key == ""


async def test_a_local_server_is_found_with_its_models():
    async with provider_server(models=["qwen3:8b", "nomic-embed-text", "llama3"]) as server:
        discovery = await discover_models(settings(ollama=server.openai_url))
    assert [model.id for model in discovery.models if model.id.startswith("ollama/")] == [
        "ollama/qwen3:8b",
        "ollama/llama3",
    ]
    assert status(discovery, "ollama").local
    assert status(discovery, "ollama").problem == ""
    assert discovery.default == "ollama/qwen3:8b"


async def test_no_server_is_waited_for_before_the_next_is_asked():
    answer = b'HTTP/1.0 200 OK\r\n\r\n{"data": [{"id": "m"}]}'
    async with listening(answer, together=len(LOCAL)) as url:
        discovery = await discover_models(settings(**dict.fromkeys(LOCAL, url)))
    assert len(LOCAL) > 1
    assert {model.id for model in discovery.models} >= {f"{name}/m" for name in LOCAL}


async def test_a_silent_server_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(listing, "LOCAL_SECONDS", 0.05)
    async with listening(None) as silent:
        discovery = await discover_models(settings(**dict.fromkeys(LOCAL, silent)))
    assert discovery.models == ()
    assert LIMIT <= 0.5
    assert {status(discovery, name).problem for name in LOCAL} == {"It does not answer in time."}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "something other than a model server is listening there."),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>a wiki</html>", "something other than a model server is listening there."),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "It answers with status 404."),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "It answers with status 302."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", "2 bytes read on a total of 99 expected bytes."),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", ""),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data": 3}', ""),
        (b"", "0 bytes read on a total of undefined expected bytes."),
    ],
)
async def test_whatever_else_listens_there_is_no_model_server(answer, problem):
    async with listening(answer) as url:
        discovery = await discover_models(settings(llamacpp=url))
    assert status(discovery, "llamacpp").problem == problem
    assert not [model for model in discovery.models if model.id.startswith("llamacpp/")]


async def test_a_key_makes_a_provider_usable_and_is_not_shown(monkeypatch, nothing):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    discovery = await discover_models(nothing, probe=False)
    assert status(discovery, "openai").key == "environment variable OPENAI_API_KEY"
    assert [model.id for model in discovery.models] == [f"openai/{name}" for name in KNOWN["openai"].suggested]
    assert all(model.source == "environment variable OPENAI_API_KEY" for model in discovery.models)
    assert discovery.default == discovery.models[0].id
    assert "sk-planted" not in repr(discovery)


async def test_a_compatible_server_is_asked_with_the_key_of_the_environment(monkeypatch, nothing):
    async with provider_server(models=["a", "b"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-0123456789")
        discovery = await discover_models(nothing)
        keys = sorted(request.key for request in server.requests)
    assert keys == ["sk-ant-planted-0123456789", "sk-planted-0123456789"]
    assert {model.id for model in discovery.models} == {"openai/a", "openai/b", "anthropic/a", "anthropic/b"}


async def test_a_bad_address_is_the_problem_of_its_provider_alone(monkeypatch, nothing):
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    discovery = await discover_models(nothing)
    assert "OPENAI_BASE_URL" in status(discovery, "openai").problem
    assert len(discovery.providers) == len(KNOWN)


async def test_a_header_can_not_smuggle_a_line():
    async with listening(b"HTTP/1.0 200 OK\r\n\r\n{}") as url:
        with pytest.raises(ValueError, match="line break"):
            await listing.get_json(url, {"X": "a\r\nEvil: b"})


def test_the_search_imports_no_sdk():
    code = (
        "import asyncio, sys\nfrom core.config.settings import Settings\n"
        "from core.providers.discovery import discover_models\n"
        "asyncio.run(discover_models(Settings()))\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'pydantic', 'genai_prices') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
