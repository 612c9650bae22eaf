"""The safety of the server: who is let in by host, origin and token, and what bad clients can't do to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from core.cli.serve import parse
from core.errors import ConfigError
from core.protocol import commands as cmd
from core.records import list_leaves
from core.transports.http.access import FAILURES_COUNTED, Grant, load_tokens, make_tokens, save_tokens
from core.transports.http.app import build_routes
from core.transports.http.guard import MAX_BODY, Guard
from core.transports.http.routing import WEBSOCKET
from core.transports.http.server import READER_LIMIT, GuardedProtocol, ListenAddress
from core.transports.http.session_routes import DRIVING
from tests.support.agent_case import says
from tests.support.http_server import CHAT, SESSIONS, TOKENS, Served, parse_stream, prompt, serving
from tests.support.story import access, project_at

# Every route, with the least that a token has to grant. One that is missing here fails the test.
READ, DRIVE, APPROVE = Grant.READ, Grant.DRIVE, Grant.APPROVE
ROUTES: dict[tuple[str, str], Grant] = {
    ("POST", "/api/v1/chat/completions"): DRIVE,
    ("POST", "/api/v1/chat/plan"): DRIVE,
    ("GET", "/api/v1/chat/{conversation_id}"): READ,
    ("GET", "/api/v1/chat/{conversation_id}/events"): READ,
    ("POST", "/api/v1/chat/{conversation_id}/interrupt"): DRIVE,
    ("GET", "/api/v1/sessions"): READ,
    ("POST", "/api/v1/sessions"): DRIVE,
    ("GET", "/api/v1/sessions/{session}"): READ,
    ("GET", "/api/v1/sessions/{session}/events"): READ,
    ("GET", "/api/v1/sessions/{session}/hunks"): READ,
    ("GET", "/api/v1/sessions/{session}/diff"): READ,
    ("GET", "/api/v1/sessions/{session}/plans"): READ,
    ("GET", "/api/v1/sessions/{session}/checkpoints"): READ,
    ("POST", "/api/v1/sessions/{session}/checkpoints/{checkpoint}/restore"): APPROVE,
    ("POST", "/api/v1/sessions/{session}/commands"): DRIVE,
    ("POST", "/api/v1/sessions/{session}/queries"): READ,
    ("POST", "/api/v1/sessions/{session}/verdicts"): APPROVE,
    ("POST", "/api/v1/sessions/{session}/approvals/{approval}"): APPROVE,
    ("POST", "/api/v1/background-composers"): DRIVE,
    ("GET", "/api/v1/background-composers"): READ,
    ("GET", "/api/v1/background-composers/{agent}"): READ,
    ("DELETE", "/api/v1/background-composers/{agent}"): DRIVE,
    ("GET", "/api/v1/background-composers/{agent}/events"): READ,
    ("POST", "/api/v1/background-composers/{agent}/messages"): DRIVE,
    ("POST", "/api/v1/background-composers/{agent}/stop"): DRIVE,
    ("POST", "/api/v1/background-composers/{agent}/pull"): APPROVE,
    ("GET", "/api/v1/models"): READ,
    ("GET", "/api/v1/settings"): READ,
    ("GET", "/api/v1/openapi.json"): READ,
    ("POST", "/api/v1/terminals"): APPROVE,
    ("POST", "/api/v1/sessions/{session}/ports/{port}"): APPROVE,
    ("GET", "/"): Grant.NONE,
    ("GET", "/terminal"): Grant.NONE,
    ("GET", "/static/{name}"): Grant.NONE,
}
GRANTS = {"": Grant.NONE, "x" * 40: Grant.NONE, TOKENS.read: READ, TOKENS.drive: DRIVE, TOKENS.approve: APPROVE}
JSON = {"Content-Type": "application/json"}
EVIL = "http://evil.example"


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def raw(served: Served, method: str, path: str, *, token: str = TOKENS.approve, **headers: str) -> bytes:
    """A request as it stands on the wire. A header that is "" is left out."""
    fields = {"Host": f"127.0.0.1:{served.port}", "Authorization": f"Bearer {token}" if token else ""}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode()


async def status_of(served: Served, request: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def ask(served: Served, method: str, path: str, **options: Any) -> int:
    return await status_of(served, raw(served, method, path, **options))


async def test_n2_every_route_needs_its_grant_whatever_the_token(project):
    async with serving(project, access(), has_page=True) as served:
        routes = [route for route in build_routes(served.service).routes if route.method != WEBSOCKET]
        endpoints = {(route.method, route.path_format) for route in routes}
        assert endpoints == set(ROUTES)
        wrong = []
        for (method, path), needed in ROUTES.items():
            at = path.replace("{session}", "ses_none").replace("{conversation_id}", "conv_none")
            at = at.replace("{checkpoint}", "x").replace("{approval}", "x").replace("{agent}", "x")
            kind = {"Content_Type": "application/json", "Content_Length": "2"} if method == "POST" else {}
            for token, grant in GRANTS.items():
                request = raw(served, method, at, token=token, **kind) + (b"{}" if method == "POST" else b"")
                status = await status_of(served, request)
                refused = 401 if grant is Grant.NONE and not token else 429 if grant is Grant.NONE else 403
                expected = {refused, 401} if grant < needed else set(range(200, 500)) - {401, 403}
                wrong += [(method, path, token[:1], status)] if status not in expected else []
            wrong += [(method, path, "OPTIONS")] if await ask(served, "OPTIONS", at, token="") != 401 else []
        assert wrong == []


@pytest.mark.parametrize("has_page", [False, True])
async def test_every_route_is_in_the_openapi_document_with_the_page_where_it_is_served(project, has_page):
    async with serving(project, access(), has_page=has_page) as served, served.client() as client:
        document = (await client.get("/api/v1/openapi.json")).json()
        routes = build_routes(served.service).routes
    known = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    endpoints = {(route.method, route.path_format) for route in routes if route.method != WEBSOCKET}
    open_to_all = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") == []
    }
    assert known == endpoints
    assert (("POST", "/api/v1/terminals") in known) is has_page
    assert open_to_all == {key for key in endpoints if ROUTES[key] is Grant.NONE}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": ""}, 400),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": EVIL}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1:PORT"}, 403),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Origin": "http://localhost:PORT", "Host": "localhost:PORT"}, 200),
        ({"Origin": "http://listed.example"}, 200),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "none"}, 200),
        ({"Host": "named.example"}, 200),
    ],
)
async def test_n3_hosts_and_origins_that_are_not_listed_are_refused_on_every_route(project, headers, status):
    async with serving(project, access(), origins=("http://listed.example",), hosts=("named.example",)) as served:
        request_headers = {name: value.replace("PORT", str(served.port)) for name, value in headers.items()}
        assert await ask(served, "GET", SESSIONS, **request_headers) == status
        if status not in {200, 400}:
            statuses = {await ask(served, method, path, **request_headers) for method, path in ROUTES}
            assert statuses | {await ask(served, "GET", "/nothing", **request_headers)} == {status}


async def test_n3_only_a_listed_page_may_read_answers(project):
    async with serving(project, access(), origins=("http://listed.example",)) as served, served.client() as client:
        listed = await client.get(SESSIONS, headers={"Origin": "http://listed.example"})
        asked = {"Access-Control-Request-Method": "POST"}
        may = await client.options(CHAT, headers={"Origin": "http://listed.example", **asked})
        may_not = await client.options(CHAT, headers={"Origin": EVIL, **asked})
        plain = await client.get(SESSIONS)
    assert listed.headers["access-control-allow-origin"] == "http://listed.example"
    assert (may.status_code, may.headers["access-control-allow-origin"]) == (204, "http://listed.example")
    assert (may_not.status_code, "access-control-allow-origin" in may_not.headers) == (403, False)
    assert [name for name in plain.headers if name.startswith("access-control") or name == "set-cookie"] == []


async def test_a_listed_page_may_read_why_it_was_refused_and_the_name_of_its_conversation(project):
    page = {"Origin": "http://listed.example"}
    async with (
        serving(project, access([says("Done.")]), origins=(page["Origin"],)) as served,
        served.client("x" * 40) as stranger,
        served.client() as client,
    ):
        wrong_token = await stranger.get(SESSIONS, headers=page)
        no_json = await client.post(CHAT, content=b"{}", headers={**page, "Content-Type": "text/plain"})
        wrong_host = await client.get(SESSIONS, headers={**page, "Host": "evil.example"})
        answer = await client.post(CHAT, json=prompt(), headers=page)
    assert [response.status_code for response in (wrong_token, no_json, wrong_host, answer)] == [401, 415, 421, 200]
    for response in (wrong_token, no_json, answer):
        assert response.headers["access-control-allow-origin"] == page["Origin"]
        assert response.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "access-control-allow-origin" not in wrong_host.headers
    assert "x-conversation-id" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_n4_a_body_that_a_form_can_send_is_refused(project, kind):
    async with serving(project, access()) as served:
        request = raw(served, "POST", CHAT, Content_Type=kind, Content_Length="2") + b"{}"
        assert await status_of(served, request) == 415


async def test_n5_a_token_in_the_address_counts_for_nothing(project):
    async with serving(project, access()) as served:
        assert await ask(served, "GET", f"{SESSIONS}?token={TOKENS.approve}", token="") == 401


async def test_n2_wrong_tokens_are_counted_and_the_right_one_is_let_in_all_the_same(project):
    async with serving(project, access()) as served:
        statuses = [
            await ask(served, "GET", SESSIONS, token=f"wrong{number}") for number in range(FAILURES_COUNTED + 2)
        ]
        assert await ask(served, "GET", SESSIONS) == 200
    assert (set(statuses[:FAILURES_COUNTED]), set(statuses[FAILURES_COUNTED:])) == ({401}, {429})


async def test_n2_a_websocket_is_let_in_by_the_same_rules(project):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    upgrade |= {"Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    async with serving(project, access()) as served:
        assert await ask(served, "GET", "/api/v1/none", token="", **upgrade) == 401
        assert await ask(served, "GET", "/api/v1/none", Origin=EVIL, **upgrade) == 403
        assert await ask(served, "GET", "/api/v1/none", Host="evil.example", **upgrade) == 421
        headers = {**upgrade, "Sec_WebSocket_Protocol": f"agent-tui, agent-tui.token.{TOKENS.read}"}
        assert await ask(served, "GET", "/api/v1/none", token="", **headers) in {403, 404}


def test_n6_every_command_that_writes_grants_or_spends_needs_the_right_to_approve():
    kinds = set(list_leaves(cmd.Command))
    assert kinds >= DRIVING
    assert {str(kind.__struct_config__.tag) for kind in kinds - DRIVING} == {
        "session.open",
        "session.resume",
        "session.delete",
        "session.export",
        "session.detach",
        "background.pull",
        "pending.keep",
        "review.keep",
        "limits.set",
        "policy.set",
        "trust.set",
        "memory.add",
        "memory.judge",
        "permission.remove",
        "server.control",
        "setting.keep",
        "theme.keep",
        "guide.keep",
        "provider.configure",
        "command.run",
        "port.open",
        "port.close",
        "approval.answer",
        "hunk.resolve",
        "changes.verify",
        "proven.accept",
        "mutant.dismiss",
        "conflict.settle",
        "bulk.resolve",
        "verdict.undo",
        "checkpoint.restore",
        "commit.make",
        "pull_request.open",
    }


async def test_n8_a_body_of_a_hundred_megabytes_is_refused_and_not_held(project):
    async with serving(project, access()) as served:
        request = raw(served, "POST", CHAT, Content_Type="application/json", Content_Length=str(100 * 2**20))
        assert await status_of(served, request) == 413
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(raw(served, "POST", CHAT, Content_Type="application/json", Transfer_Encoding="chunked"))
        piece, sent = b"10000\r\n" + b" " * 65536 + b"\r\n", 0
        with contextlib.suppress(ConnectionError):  # the answer may be lost with what was sent after it
            while sent <= 100 * 2**20:
                writer.write(piece)
                await writer.drain()
                sent += 65536
            assert await reader.read(12) == b"HTTP/1.1 413"
        writer.close()
        assert sent < MAX_BODY + 32 * 2**20
        assert await ask(served, "GET", SESSIONS) == 200


async def test_n8_a_client_of_a_byte_a_second_is_ended_and_holds_up_nobody(project, monkeypatch):
    monkeypatch.setattr(GuardedProtocol, "header_limit", 0.2)
    monkeypatch.setattr(Guard, "body_limit", 0.2)
    async with serving(project, access()) as served:
        silent, silent_writer = await asyncio.open_connection("127.0.0.1", served.port)
        headers, header_writer = await asyncio.open_connection("127.0.0.1", served.port)
        header_writer.write(b"GET /api/v1/sessions HTTP/1.1\r\nHo")
        body, body_writer = await asyncio.open_connection("127.0.0.1", served.port)
        body_writer.write(raw(served, "POST", CHAT, Content_Type="application/json", Content_Length="20") + b"{")
        assert await ask(served, "GET", SESSIONS) == 200
        assert await silent.read() == b""
        assert await headers.read() == b""
        assert (await body.read()).startswith(b"HTTP/1.1 408")
        for writer in (silent_writer, header_writer, body_writer):
            writer.close()


async def test_n7_a_reader_that_takes_nothing_is_dropped_and_the_turn_goes_on(project, monkeypatch):
    monkeypatch.setattr(GuardedProtocol, "reader_limit", 0.5)
    async with serving(project, access([says("word " * 2_000_000)])) as served, served.client() as client:
        narrow = socket.create_connection(("127.0.0.1", served.port))
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
        body = json.dumps(prompt(stream=True)).encode()
        request = raw(served, "POST", CHAT, Content_Type="application/json", Content_Length=str(len(body)))
        writer.write(request + body)
        head = await reader.readuntil(b"\r\n\r\n")
        conversation = next(line.split()[1] for line in head.decode().splitlines() if line.startswith("x-conversation"))
        await served.service.streams.wait_empty()
        writer.transport.abort()
        monkeypatch.setattr(GuardedProtocol, "reader_limit", READER_LIMIT)
        events = parse_stream((await client.get(f"/api/v1/chat/{conversation}/events")).text)
        assert events[-2].data["status"] == "completed"


async def test_n8_ten_streams_that_are_cut_at_once_leave_nothing_behind(project):
    hold = asyncio.Event()
    async with serving(project, access(*([[hold, *says("Done.")]] for _ in range(10)))) as served:
        async with served.client() as client:
            streams = [client.stream("POST", CHAT, json=prompt(stream=True)) for _ in range(10)]
            opened = await asyncio.gather(*(stream.__aenter__() for stream in streams))
            assert [response.status_code for response in opened] == [200] * 10
            assert served.service.streams.count == 10
        hold.set()
        async with served.client() as client:
            for response in opened:
                whole = await client.get(f"/api/v1/chat/{response.headers['x-conversation-id']}/events")
                assert parse_stream(whole.text)[-2].data["status"] == "completed"
        assert served.service.streams.count == 0


async def test_n8_headers_without_end_and_what_is_no_http_are_refused(project):
    async with serving(project, access()) as served:
        assert await status_of(served, b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000) == 400
        assert await status_of(served, b"\x16\x03\x01\x02\x00 hello\r\n\r\n") == 400
        chunked = raw(served, "POST", CHAT, Content_Type="application/json", Transfer_Encoding="chunked")
        assert await status_of(served, chunked + b"zz\r\n{}\r\n0\r\n\r\n") == 400
        assert await ask(served, "GET", SESSIONS) == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.com"])
def test_n1_beyond_this_machine_there_is_no_server_without_tls(host, tmp_path):
    with pytest.raises(ConfigError, match="other machines"):
        parse(["--host", host, str(tmp_path)]).build_address()
    ListenAddress(host=host, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem").check_exposure()


def test_n2_the_tokens_are_for_their_owner_alone_and_weak_or_open_ones_are_refused(tmp_path):
    path, tokens = tmp_path / "serve" / "tokens.json", make_tokens()
    save_tokens(path, tokens)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_tokens(path) == tokens
    assert len({tokens.read, tokens.drive, tokens.approve}) == 3
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others"):
        load_tokens(path)
    path.write_text(json.dumps({"read": "a", "drive": "b", "approve": "c"}))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="weak"):
        load_tokens(path)
