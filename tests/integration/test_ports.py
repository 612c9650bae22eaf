"""The ports of a session's commands, opened on the user's machine; and who else is in the session's network."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from core.errors import CommandRejected, ToolFailed
from core.protocol import events as ev
from core.sandbox.box import Tier
from core.sandbox.proxy import Proxy
from core.sandbox.tiers.boxed_process import ProcessBox
from core.shell.server_process import ServerNetwork, ServerProcess
from core.shell.session_network import SessionNetwork, listen_on_loopback
from tests.support.agent_case import Case, calls, says
from tests.support.boxes import boxed, command

SERVE = calls(
    (
        "run_terminal_cmd",
        {"command": "exec python3 -u -m http.server 8766 2>&1", "is_background": True, "timeout": 0},
    )
)
GET = "python3 -c \"import urllib.request as u; print('GOT', u.urlopen('http://127.0.0.1:8766/page.html').read())\""
GET_PROXY = (
    "python3 -c \"import socket as s, os; p = os.environ['http_proxy'].rpartition(':')[2];"
    " c = s.create_connection(('127.0.0.1', {})); c.sendall(b'GET http://example.test/ HTTP/1.1\\r\\n\\r\\n');"
    ' print(p, c.recv(99).split()[1])"'
)


def network_of(case: Case) -> SessionNetwork:
    return case.session.terminal.host.network


async def wait_for_ports(case: Case, *numbers: int) -> tuple[ev.OpenPort, ...]:
    """Wait until exactly these ports are published."""
    changed, take = asyncio.Event(), case.on_event

    def observe(event: ev.AnyEvent) -> None:
        take(event)
        changed.set()

    case.on_event = observe
    async with asyncio.timeout(30):
        while tuple(port.port for port in case.state.ports if port.is_listening) != numbers:
            changed.clear()
            await changed.wait()
    case.on_event = take
    return case.state.ports


def fetch(address: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=30) as answer:
        content: bytes = answer.read()
    return content


async def test_the_pending_page_is_fetched_from_the_machine_once_its_port_is_opened(tmp_path):
    async with boxed(tmp_path, SERVE, says(".")) as case:
        (case.project / "page.html").write_text("project\n")
        await case.turn()
        [port] = await wait_for_ports(case, 8766)
        assert "http.server 8766" in port.command
        assert port.address == ""
        network = network_of(case)
        with pytest.raises(CommandRejected, match="nothing listens at port 99"):
            network.check_port(99, Tier.NAMESPACES)
        network.check_port(8766, Tier.NAMESPACES)
        await network.open_port(8766)
        [port] = case.state.ports
        assert port.address.startswith("http://localhost:")
        assert await asyncio.to_thread(fetch, f"{port.address}/page.html") == b"project\n"
        case.shadow.write("page.html", b"pending\n")
        await case.session.terminal.jobs.update_views()
        assert await asyncio.to_thread(fetch, f"{port.address}/page.html") == b"pending\n"
        await network.open_port(8766)
        assert case.state.ports == (port,)
        await case.session.terminal.jobs.end("job_1")
        await wait_for_ports(case)
        [port] = case.state.ports
        assert (port.is_listening, port.address != "") == (False, True)
        with pytest.raises(OSError, match=r"."):
            await asyncio.to_thread(fetch, f"{port.address}/page.html")
        await network.close_port(8766)
        assert case.state.ports == ()
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(fetch, f"{port.address}/page.html")


async def test_a_port_that_is_taken_on_the_machine_is_forwarded_at_another_one(tmp_path):
    async with boxed(tmp_path, SERVE, says(".")) as case:
        (case.project / "page.html").write_text("project\n")
        await case.turn()
        await wait_for_ports(case, 8766)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            taken_port = taken.getsockname()[1]
            assert listen_on_loopback(taken_port) == []
        held = listen_on_loopback(8766)
        try:
            await network_of(case).open_port(8766)
            [port] = case.state.ports
            assert port.address != "http://localhost:8766"
            assert await asyncio.to_thread(fetch, f"{port.address}/page.html") == b"project\n"
        finally:
            for sock in held:
                sock.close()


async def test_another_session_does_not_reach_the_server_and_closing_ends_the_forwarding(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(boxed(tmp_path / "one", SERVE, command(GET), says(".")))
        other = await stack.enter_async_context(boxed(tmp_path / "other", command(f"{GET} 2>&1 | tail -1"), says(".")))
        (one.project / "page.html").write_text("one\n")
        await one.turn()
        await wait_for_ports(one, 8766)
        await other.turn()
        assert "refused" in other.results()[0]
        await network_of(one).open_port(8766)
        [port] = one.state.ports
        assert await asyncio.to_thread(fetch, f"{port.address}/page.html") == b"one\n"
        await one.session.terminal.close()
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(fetch, f"{port.address}/page.html")


async def test_a_server_process_shares_the_network_of_the_commands(tmp_path):
    async def open_network() -> ServerNetwork:
        return ServerNetwork(proxy=None)

    async with boxed(tmp_path, SERVE, says(".")) as case:
        (case.project / "page.html").write_text("one\n")
        await case.turn()
        await wait_for_ports(case, 8766)
        pieces: list[str] = []
        server = ServerProcess(case.session.terminal.host, keeps_effects=False, network=open_network)
        running = await server.start(("/bin/sh", "-c", GET), {}, pieces.append, pieces.append)
        await running.wait()
        assert "GOT b'one\\n'" in "".join(pieces)
        alone = ServerProcess(case.session.terminal.host, keeps_effects=False)
        running = await alone.start(("/bin/sh", "-c", GET), {}, pieces.append, pieces.append)
        await running.wait()
        assert "refused" in "".join(pieces)


async def test_a_machine_that_refuses_the_network_is_named_once_and_commands_run_without(tmp_path, monkeypatch):
    async def refuse(*_: object) -> None:
        raise ToolFailed("The network of the sandbox could not be set up: Operation not permitted.")

    monkeypatch.setattr(ProcessBox, "open_network", refuse)
    job = calls(("run_terminal_cmd", {"command": "echo job", "is_background": True, "timeout": 20}))
    async with boxed(tmp_path, job, job, command("echo one"), says(".")) as case:
        await case.turn()
        assert ["job" in case.results()[0], "job" in case.results()[1], "one" in case.results()[2]] == [True] * 3
        assert [notice.message for notice in case.of(ev.Notice)] == [
            "The network of the sandbox could not be set up: Operation not permitted."
        ]


async def test_a_proxy_with_a_login_has_a_port_of_its_own_and_refuses_the_commands(tmp_path):
    async with boxed(tmp_path, command("true"), says(".")) as case:
        await case.turn()
        proxy = Proxy(lambda _: False, on_refusal=lambda _: None, on_connection=lambda _: None)
        proxy.login = "agent:secret"
        path: Path = await proxy.start(tmp_path / "hosted")

        async def open_network() -> ServerNetwork:
            return ServerNetwork(proxy=path, login=proxy.login)

        pieces: list[str] = []
        server = ServerProcess(case.session.terminal.host, keeps_effects=False, network=open_network)
        running = await server.start(("/bin/sh", "-c", "echo $http_proxy"), {}, pieces.append, pieces.append)
        await running.wait()
        address = "".join(pieces).strip()
        assert address.startswith("http://agent:secret@127.0.0.1:")
        port = int(address.rpartition(":")[2])
        assert port != 3128
        server = ServerProcess(case.session.terminal.host, keeps_effects=False, network=open_network)
        running = await server.start(("/bin/sh", "-c", GET_PROXY.format(port)), {}, pieces.append, pieces.append)
        await running.wait()
        assert f"{port} b'407'" in "".join(pieces)
        await proxy.close()
