from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.debug.probe_records import read_log
from core.sandbox.proxy import Proxy
from core.shell import log_collector as module
from core.shell.log_collector import MAX_BODY, LogCollector, is_ingest


@asynccontextmanager
async def listening(tmp_path: Path) -> AsyncIterator[LogCollector]:
    collector = LogCollector("ses_1", tmp_path / "posted.ndjson")
    await collector.start()
    try:
        yield collector
    finally:
        await collector.close()


def request(
    collector: LogCollector, body: bytes = b"{}", *, method: str = "POST", path: str = "", **headers: str
) -> bytes:
    header_fields = {"Host": f"127.0.0.1:{collector.port}", "Content-Length": str(len(body))}
    header_fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [
        f"{method} {path or collector.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in header_fields.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def said(port: int, data: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ")[1]), answer


def messages(tmp_path: Path) -> list[str]:
    log = tmp_path / "posted.ndjson"
    return [record.message for record in read_log([log.read_bytes()], "r1").records] if log.exists() else []


async def test_what_is_posted_is_kept_and_a_page_of_any_origin_may_send(tmp_path):
    async with listening(tmp_path) as collector:
        status, answer = await said(
            collector.port, request(collector, b'{\n "message": "one"\n}', Origin="http://x.example")
        )
        assert status == 204
        assert "Access-Control-Allow-Origin: *" in answer
        two = b'{"message": "two"}\n{"message": "three"}\n'
        assert (await said(collector.port, request(collector, two)))[0] == 204
        both = b'[{"message": "four"},\n {"message": "five"}]'
        assert (await said(collector.port, request(collector, both)))[0] == 204
        asked = {"Origin": "https://x.example", "Access_Control_Request_Private_Network": "true"}
        status, answer = await said(collector.port, request(collector, b"", method="OPTIONS", **asked))
        assert status == 204
        assert "Access-Control-Allow-Private-Network: true" in answer
        assert "Access-Control-Allow-Headers: content-type" in answer
        assert messages(tmp_path) == ["one", "two", "three", "four", "five"]
        assert (tmp_path / "posted.ndjson").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (404, {"path": "/ingest/ses_1/wrong"}),
        (404, {"path": "/other"}),
        (404, {"method": "GET"}),
        (421, {"Host": "evil.example"}),
        (413, {"Content_Length": str(MAX_BODY + 1)}),
        (411, {"Content_Length": "x"}),
        (411, {"Transfer_Encoding": "chunked"}),
        (431, {"X_Long": "y" * 20_000}),
    ],
)
async def test_n2_n3_what_does_not_know_the_token_or_says_too_much_is_refused_and_leaves_nothing(
    tmp_path, status, change
):
    async with listening(tmp_path) as collector:
        assert (await said(collector.port, request(collector, **change)))[0] == status
        assert messages(tmp_path) == []


async def test_n8_too_many_requests_and_too_many_bytes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RATE_BURST", 3.0)
    monkeypatch.setattr(module, "RATE_PER_SECOND", 0.0)
    monkeypatch.setattr(module, "MAX_RUN_BYTES", 60)
    async with listening(tmp_path) as collector:
        sent = [request(collector, json.dumps({"message": "m" * size}).encode()) for size in (5, 50, 1, 1)]
        assert [(await said(collector.port, raw_request))[0] for raw_request in sent] == [204, 507, 204, 429]


async def test_n8_garbage_and_those_who_say_nothing_hold_up_nobody_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 3)
    async with listening(tmp_path) as collector:
        silent = [await asyncio.open_connection("127.0.0.1", collector.port) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", collector.port)
        assert await reader.read() == b""
        writer.close()
        for garbage, (_, stream_writer) in zip(
            (b"", b"\0\xff\r\n\r\n", b"POST /ingest/ses_1/\xff"), silent, strict=True
        ):
            stream_writer.write(garbage)
            stream_writer.close()
        await collector._connections.wait()
        assert (await said(collector.port, request(collector, b'\xff{"message": 1')))[0] == 204
        assert (await said(collector.port, request(collector, b'{"message": "whole"}')))[0] == 204
        assert messages(tmp_path) == ["whole"]


async def test_n1_it_listens_on_loopback_alone_on_a_port_of_its_own(tmp_path):
    async with listening(tmp_path) as one, listening(tmp_path) as other:
        assert one.port != other.port
        assert one.path != other.path
        assert (await said(one.port, request(other)))[0] == 404
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", one.port)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"])
async def test_n4_a_form_that_a_page_sends_blindly_does_not_know_the_way_and_leaves_nothing(tmp_path, kind):
    async with listening(tmp_path) as collector:
        for path in ("/", "/ingest", "/ingest/ses_1", "/ingest/ses_1/", f"/ingest/ses_1/{'a' * 43}"):
            sent = request(collector, b"message=x", path=path, Content_Type=kind, Origin="http://evil.example")
            status, answer = await said(collector.port, sent)
            assert status == 404
            assert collector.path.rpartition("/")[2] not in answer
        assert messages(tmp_path) == []


async def test_nobody_listens_when_it_is_closed(tmp_path):
    async with listening(tmp_path) as collector:
        port = collector.port
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_the_log_is_never_written_through_a_link(tmp_path):
    other = tmp_path / "other"
    (tmp_path / "posted.ndjson").symlink_to(other)
    async with listening(tmp_path) as collector:
        assert (await said(collector.port, request(collector)))[0] == 507
    assert not other.exists()


async def test_the_way_out_of_a_box_hands_over_what_is_for_the_collector_and_nothing_else(tmp_path):
    collector = LogCollector("ses_1", tmp_path / "posted.ndjson")
    refused = []
    way_out = Proxy(
        lambda _: False,
        on_refusal=refused.append,
        on_connection=lambda _: None,
        find_handler=lambda head: collector.handle_request if is_ingest(head) else None,
    )
    socket = await way_out.start(tmp_path / "network")
    answers = []
    for data in (
        request(collector, b'{"message": "boxed"}'),
        b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    ):
        reader, writer = await asyncio.open_unix_connection(str(socket))
        writer.write(data)
        answers.append(int((await reader.read()).split(b" ")[1]))
        writer.close()
    await way_out.close()
    assert answers == [204, 403]
    assert messages(tmp_path) == ["boxed"]
    assert [target.host for target in refused] == ["a.example"]
