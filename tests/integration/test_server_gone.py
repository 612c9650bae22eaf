"""A model server that goes away for a while, and streams that are not quite what they should be; with the real SDKs."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import ssl
import sys
from contextlib import AsyncExitStack

import pytest

from core.agent.base.routes import Route
from core.agent.turn import model_calls
from core.errors import ProviderError
from core.exits import ExitCode
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage
from core.providers.connection import event_stream
from core.providers.connection.endpoint import Endpoint
from core.providers.connection.failures import Api, build_exception_error
from core.sessions.store import SessionStore
from tests.support.agent_case import Case
from tests.support.program import PROGRAM, environment
from tests.support.provider_calls import Answer, ask, connect
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step, events
from tests.support.session_log import scan
from tests.support.terminals import all_of
from tests.support.trust import trust

DIALECTS = ("openai", "responses", "anthropic")
SAID = '{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}'


@pytest.fixture
def clock(monkeypatch):
    """The time by which a failed call is tried again; a pause takes none."""
    now = [0.0]
    monkeypatch.setattr(model_calls, "monotonic", lambda: now[0])

    async def pause(seconds: float) -> None:
        now[0] += seconds
        await asyncio.sleep(0)

    monkeypatch.setattr(model_calls, "pause", pause)
    return now


@pytest.mark.parametrize("seconds", [2, 5, 10, 60])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_n16c_a_server_that_is_gone_for_a_while_does_not_end_the_turn(
    tmp_path, clock, monkeypatch, dialect, seconds
):
    case = Case(tmp_path)
    async with AsyncExitStack() as stack:
        async with provider_server(["One."]) as first:
            provider = connect(first, dialect)
            case.session.routes.current = Route(
                provider=provider, model="tiny-1", id=f"{dialect}/tiny-1", window=100_000
            )
            assert (await case.turn("one")).reason == "done"

        async def pause(wait: float) -> None:
            clock[0] += wait
            if clock[0] >= seconds and not stack_has_server:
                stack_has_server.append(await stack.enter_async_context(provider_server(["Two."], port=first.port)))

        stack_has_server: list[object] = []
        monkeypatch.setattr(model_calls, "pause", pause)
        finished = await case.turn("two")
        await provider.close()
    assert (finished.reason, finished.message) == ("done", "")
    assert case.messages[-1].content == "Two."
    assert case.of(ev.StepRetried)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("headers", [{}, {"Retry-After": "0"}, {"Retry-After": "1"}])
async def test_n16c_a_rate_limit_of_a_minute_does_not_end_the_turn(tmp_path, clock, monkeypatch, dialect, headers):
    case = Case(tmp_path)
    async with provider_server([Step(status=429, error="slow down", headers=headers)], repeat=True) as server:
        provider = connect(server, dialect)
        case.session.routes.current = Route(provider=provider, model="tiny-1", id=f"{dialect}/tiny-1", window=100_000)

        async def pause(wait: float) -> None:
            clock[0] += wait
            if clock[0] >= 60:
                server.plays[""][:] = [Step(text="At last.")]

        monkeypatch.setattr(model_calls, "pause", pause)
        finished = await case.turn("one")
        await provider.close()
    assert (finished.reason, finished.message) == ("done", "")
    assert len(case.of(ev.StepRetried)) < 90
    assert min(event.delay_ms for event in case.of(ev.StepRetried)) >= 500


async def answer_of(dialect, step, **fields) -> Answer:
    async with provider_server([step]) as server:
        provider = connect(server, dialect, **fields)
        try:
            return await ask(provider)
        finally:
            await provider.close()


async def failure_of(dialect, step, **fields) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answer_of(dialect, step, **fields)
    return caught.value


async def test_n16c_text_and_the_end_mark_without_a_reason_is_an_answer():
    answer = await answer_of("openai", Step(raw=f"data: {SAID % 'Hello.'}\n\ndata: [DONE]\n\n"))
    assert (answer.text, answer.finish) == ("Hello.", "stop")


@pytest.mark.parametrize("end", ["data: [DONE]\n\n", ""])
async def test_n16c_nothing_or_no_end_mark_without_a_reason_is_none(end):
    raw = 'data: {"choices":[]}\n\n' + (f"data: {SAID % 'Half'}\n\n" if not end else "")
    assert (await failure_of("openai", Step(raw=raw + end))).code == "stream_cut"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "noise", ["data:\n\n", "data: \n\n", "retry: 3000\n\n", "event: ping\ndata: {}\n\n", ": hi\n\n"]
)
async def test_n16c_events_that_say_nothing_are_passed_over(dialect, noise):
    raw = noise + noise.join(data.decode() for _, data in events(Step(text="Hello there."), dialect, "m"))
    answer = await answer_of(dialect, Step(raw=raw))
    assert (answer.text, answer.finish) == ("Hello there.", "stop")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("<html><title>Sign in</title></html>", "text/html", "Sign in"),
        ('{"hello": "world"}', "application/json", "hello"),
        ('{"detail": "no such route"}', "application/json", "no such route"),
    ],
)
async def test_n16c_a_page_in_place_of_a_stream_names_its_type_and_the_address(dialect, body, kind, said):
    error = await failure_of(dialect, Step(body=body))
    assert (error.code, error.retryable) == ("stream_invalid", False)
    assert kind in error.message
    assert said in error.message
    assert "http://127.0.0.1:" in error.hint


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_n16c_an_error_object_in_place_of_a_stream_is_that_error(dialect):
    error = await failure_of(dialect, Step(body='{"error": {"type": "rate_limit_error", "message": "slow"}}'))
    assert error.code == "rate_limited"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("flood", [": still here\n\n", "data:\n\n", 'event: ping\ndata: {"type": "ping"}\n\n'])
async def test_n16c_signs_of_life_without_an_answer_end_after_a_limit(dialect, flood):
    error = await failure_of(dialect, Step(raw=": hi\n\n", flood=flood), stall_seconds=0.2)
    assert error.code == "stalled"
    assert error.message == "The server (tiny-1) sent nothing but signs of life for 1 s."


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("said", ["text", "tool"])
async def test_an_answer_that_falls_silent_is_ended_after_a_minute(dialect, said, monkeypatch):
    monkeypatch.setattr(event_stream, "SILENCE_SECONDS", 0.2)
    step = Step(text="x" * 200, calls=[Call(name="grep", arguments={"pattern": "y" * 200})], hang=said)
    error = await failure_of(dialect, step)
    assert (error.code, error.retryable) == ("stalled", True)
    assert error.message == "The server (tiny-1) sent nothing for 0.2 s."


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_may_think_for_longer_before_its_first_word(dialect, monkeypatch):
    monkeypatch.setattr(event_stream, "SILENCE_SECONDS", 0.05)
    error = await failure_of(dialect, Step(hang="before"), stall_seconds=0.4)
    assert error.message == "The server (tiny-1) sent nothing for 0.4 s."


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_sign_of_life_is_not_silence(dialect, monkeypatch):
    monkeypatch.setattr(event_stream, "SILENCE_SECONDS", 2.5)
    monkeypatch.setattr(Endpoint, "patience", 1.5)  # longer than the second of silence that would end it
    stream = "".join(data.decode() for _, data in events(Step(text="x" * 30), dialect, "m"))
    ends = {"openai": "finish_reason", "responses": "event: response.output_text.done"}
    head, _, _ = stream.partition(ends.get(dialect, "event: content_block_stop"))
    error = await failure_of(
        dialect, Step(raw=head.rpartition("\n\n")[0] + "\n\n", flood=": on it\n\n"), stall_seconds=1
    )
    assert error.message == "The server (tiny-1) sent nothing but signs of life for 1.5 s."


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_n16c_a_tls_error_names_the_reason(dialect):
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(plain, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with provider_server() as server:
        provider = connect(server, dialect, base_url=f"https://127.0.0.1:{port}/v1")
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        await provider.close()
    listener.close()
    assert caught.value.code == "tls_failed"
    assert any(word in caught.value.message.lower() for word in ("wrong version number", "record layer"))


def test_n16c_a_certificate_that_is_not_trusted_is_no_permission_error():
    refused = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed")
    refused.verify_message = "self-signed certificate"
    wrapped = type("ConnectError", (Exception,), {})("TLS")
    wrapped.__cause__ = refused
    error = build_exception_error(wrapped, Api(label="It", base_url="https://x"))
    assert (error.code, error.retryable) == ("tls_failed", False)
    assert "self-signed certificate" in error.message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_n16c_a_signal_ends_a_prompt_as_the_keyboard_does(tmp_path, number):
    trust(tmp_path)
    async with provider_server([Step(text="x" * 200, hang="text"), "Going on."]) as server:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "-p", "Do it", "--model", "openai/m", cwd=tmp_path, env=environment(server),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        await server.hanging.wait()
        os.kill(process.pid, number)
        out, err = await process.communicate()
        assert (process.returncode, b"Traceback" in out + err) == (130, False)
        store = SessionStore(tmp_path)
        log = scan(store.sessions_path / store.resolve_id("") / "log.jsonl")
        assert log.whole
        assert [envelope.event.reason for envelope in log.envelopes if isinstance(envelope.event, ev.TurnFinished)] == [
            "interrupted"
        ]
        messages = [
            envelope.event.message for envelope in log.envelopes if isinstance(envelope.event, ev.MessageAppended)
        ]
        assert isinstance(messages[-1], AssistantMessage)
        again = await asyncio.create_subprocess_exec(
            *PROGRAM, "-c", "-p", "Go on", cwd=tmp_path, env=environment(server),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=sys.stderr,
        )  # fmt: skip
        out, _ = await again.communicate()
        assert (again.returncode, out) == (0, b"Going on.\n")


async def test_a_wait_counts_down_on_a_terminal_and_ctrl_c_ends_it_at_once(tmp_path):
    trust(tmp_path)
    busy = Step(status=529, error="Overloaded", headers={"Retry-After": "80"})
    async with provider_server([busy], repeat=True) as server:
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "-p", "Do it", "--model", "openai/m", cwd=tmp_path, env=environment(server),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        output = b""
        while b"retry in 79 s" not in output:
            output += await asyncio.to_thread(os.read, ours, 4096)
        os.kill(process.pid, signal.SIGINT)
        assert await process.wait() == ExitCode.INTERRUPTED
    rest = await asyncio.to_thread(all_of, ours)
    text = (output + rest).decode()
    assert "OpenAI (m) is overloaded (529): Overloaded. Attempt 2 in 80.0 s." in text
    assert "retry in 80 s · Ctrl+C stops" in text
    assert len(server.answered) == 1
