"""Connections that fail before a model says anything: what is told, and whether it is worth another attempt."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.agent.turn import model_calls
from core.errors import ProviderError
from core.exits import ExitCode
from core.providers.connection.failures import Api, build_exception_error, build_status_error
from tests.support.program import environment, run
from tests.support.provider_calls import ask, connect
from tests.support.provider_server import provider_server
from tests.support.trust import trust

HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
SPOKEN = {
    "nginx": b"<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>",
    "go": b"Client sent an HTTP request to an HTTPS server.\n",
    "apache": b"Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />",
}


@contextlib.asynccontextmanager
async def listening(answer: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port that answers whatever comes with these bytes, and ends."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    listener = await asyncio.start_server(reply, "127.0.0.1", 0, ssl=context)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


async def failure_at(url: str, dialect: str = "openai") -> ProviderError:
    async with provider_server() as server:
        provider = connect(server, dialect, base_url=url)
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        await provider.close()
    return caught.value


@pytest.mark.parametrize("dialect", ["openai", "responses", "anthropic"])
async def test_n43_https_for_a_server_of_http_is_told_with_the_right_address(dialect):
    async with listening(HTTP_ANSWER % (0, b"")) as port:
        error = await failure_at(f"https://127.0.0.1:{port}/v1", dialect)
    assert (error.code, error.retryable) == ("tls_failed", False)
    assert f"Use http://127.0.0.1:{port}/v1 as its base URL" in error.hint


@pytest.mark.parametrize("answer", [TLS_ALERT, *(HTTP_ANSWER % (len(each), each) for each in SPOKEN.values())])
async def test_n43_http_for_a_server_of_https_is_told_with_the_right_address(answer):
    async with listening(answer) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/v1")
    assert (error.code, error.retryable) == ("tls_failed", False)
    assert f"Use https://127.0.0.1:{port}/v1 as its base URL" in error.hint


async def test_n43_a_server_that_hangs_up_on_http_may_want_https():
    async with listening(b"") as port:
        error = await failure_at(f"http://127.0.0.1:{port}/v1")
    assert (error.code, error.retryable) == ("stream_cut", True)
    assert "https" in error.hint


def test_n43_the_words_of_another_scheme_count_for_an_address_of_the_first_only():
    api = Api(label="It", base_url="https://127.0.0.1/v1")
    assert build_status_error(400, SPOKEN["go"].decode(), {}, api).code == "request_invalid"


async def make_context(tmp_path: Path) -> ssl.SSLContext:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = (
        f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout {key} -out {certificate}"
    )
    process = await asyncio.create_subprocess_exec(
        "openssl", *words.split(), "-subj", "/CN=localhost", stderr=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_n43_which_failures_are_tried_again_and_for_how_long(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(model_calls, "monotonic", lambda: clock[0])

    def wait_for(error: ProviderError, *, has_answered: bool) -> float:
        backoff, begun = model_calls.Backoff(has_answered=has_answered), clock[0]
        while (pause := backoff.compute_pause(error)) is not None:
            clock[0] += pause
        return clock[0] - begun

    async with listening(b"", await make_context(tmp_path)) as port:
        untrusted = await failure_at(f"https://127.0.0.1:{port}/v1")
    async with listening(b"") as port:
        broken = await failure_at(f"https://127.0.0.1:{port}/v1")
    unknown = type("ConnectError", (Exception,), {})("[Errno -2] Name or service not known")
    nameless = build_exception_error(unknown, Api(label="It", base_url="http://nowhere.invalid/v1"))
    refused = await failure_at("http://127.0.0.1:1/v1")
    assert [failure.code for failure in (untrusted, broken, nameless, refused)] == ["tls_failed"] * 2 + [
        "unreachable"
    ] * 2
    assert "self-signed" in untrusted.message
    assert "can't be resolved" in nameless.message
    for error, first, later in ((untrusted, 0, 0), (broken, 2.5, 90), (nameless, 2.5, 90), (refused, 2.5, 90)):
        assert wait_for(error, has_answered=False) == pytest.approx(first, abs=0.6)
        assert wait_for(error, has_answered=True) == pytest.approx(later, abs=1)


async def test_n43_a_prompt_to_the_wrong_scheme_ends_at_once(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    trust(project)
    async with listening(HTTP_ANSWER % (0, b"")) as port:
        url = f"https://127.0.0.1:{port}/v1"
        env = environment(None, OPENAI_BASE_URL=url, OPENAI_API_KEY="dummy")
        ended = await run(project, "-p", "hi", "--model", "openai/tiny-1", env=env)
    assert ended.code == ExitCode.FAILED
    output = ended.out + ended.err
    assert f"Use http://127.0.0.1:{port}/v1 as its base URL" in output
    assert "again in" not in output
