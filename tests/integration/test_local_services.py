"""Services of the user's machine from a box: ports of its loopback and sockets with a name, over real servers."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from core.permissions.saved_rules import SavedRules
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.sandbox.box import Tier
from tests.integration.test_permissions import asked, engine_of, project, results, turn  # noqa: F401
from tests.integration.test_requested_permissions import asking, audit, documents
from tests.support.agent_case import says
from tests.support.box_tiers import offered
from tests.support.boxes import boxed, command
from tests.support.configured import configured
from tests.support.open_session import run_turn, submit

# Says what it is given on the command line to a port or a socket, and prints the answer.
ASK = """
import socket, sys
where, said = sys.argv[1], sys.argv[2]
kind = socket.AF_UNIX if where.startswith("/") else socket.AF_INET
with socket.socket(kind) as asked:
    asked.settimeout(30)
    try:
        asked.connect(where if kind == socket.AF_UNIX else ("127.0.0.1", int(where)))
        asked.sendall(said.encode())
        asked.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := asked.recv(65536):
            answer += piece
        print("answer:", answer.decode()[:200], len(answer))
    except OSError as error:
        print("refused:", error.strerror)
"""


class Server:
    """A service that answers in capitals, a million bytes of `x` to "much"."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0

    async def serve(self, reader, writer) -> None:
        payload = await reader.read()
        self.heard.append(payload)
        writer.write(b"x" * 1_000_000 if payload == b"much" else payload.upper())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def tcp_server() -> AsyncIterator[Server]:
    service = Server()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    async with server:
        yield service


@asynccontextmanager
async def unix_server(path: Path) -> AsyncIterator[Server]:
    service = Server()
    server = await asyncio.start_unix_server(service.serve, str(path))
    async with server:
        yield service


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose name leaves room for that of a socket."""
    place = Path(tempfile.mkdtemp(prefix="srv"))
    yield place
    shutil.rmtree(place)


@pytest.fixture
def auto(project) -> Path:  # noqa: F811
    configured("")
    (project / "ask.py").write_text(ASK)
    return project


async def test_a_port_is_reached_by_the_command_that_was_granted_it_and_by_no_other(auto):
    async with tcp_server() as server:
        say, service = f"python3 ask.py {server.port} hello", f"localhost:{server.port}"
        steps = [command(say), asking(say, service), command(say), says("ok")]
        async with engine_of(auto, *steps) as (engine, session):
            [request] = asked(await turn(engine, session, "allow_once"))
            assert (request.subject, request.network, request.permissions) == (say, (service,), (service,))
            assert service in request.reason
            first, second, third = (document.output for document in documents(engine, session))
            assert second == "answer: HELLO 5\n"
            assert first.startswith("refused:")
            assert third.startswith("refused:")
            assert server.heard == [b"hello"]
            assert documents(engine, session)[1].permissions == (service,)
            [passed] = [entry.data for entry in audit(engine, session) if entry.kind == "service.passed"]
            assert passed == {"service": service, "sent": 5, "received": 5}


async def test_a_large_answer_comes_whole(auto):
    async with tcp_server() as server:
        say = f"python3 ask.py {server.port} much"
        async with engine_of(auto, asking(say, f"localhost:{server.port}"), says("ok")) as (engine, session):
            await turn(engine, session, "allow_once")
            assert documents(engine, session)[0].output.endswith(" 1000000\n")


async def test_a_no_reaches_nothing(auto):
    async with tcp_server() as server:
        say = f"python3 ask.py {server.port} hello"
        async with engine_of(auto, asking(say, f"localhost:{server.port}"), says("ok")) as (engine, session):
            await turn(engine, session, "reject_once")
            assert (documents(engine, session)[0].permissions, server.heard) == ((), [])


async def test_a_grant_for_the_session_holds_for_later_commands_and_jobs(auto):
    async with tcp_server() as server:
        say, service = f"python3 ask.py {server.port} hello", f"localhost:{server.port}"
        job = command(say, is_background=True, timeout=30)
        async with engine_of(auto, asking(say, service), command(say), job, says("ok")) as (engine, session):
            assert len(asked(await turn(engine, session, "allow_session"))) == 1
            assert server.heard == [b"hello"] * 3
            grants = engine._find_session(session).permissions.network_grants
            assert grants.list_services() == (service,)
        assert SavedRules(auto).load() == ()


async def test_what_was_granted_for_the_session_is_listed_and_taken_back(auto):
    async with tcp_server() as server:
        say, service = f"python3 ask.py {server.port} hello", f"localhost:{server.port}"
        async with engine_of(auto, asking(say, service), says("ok"), command(say), says("ok")) as (engine, session):
            await turn(engine, session, "allow_session")
            answer = await engine.query(q.PermissionsQuery(session=session))
            assert (answer.services, [permission.rule for permission in answer.kept]) == (
                (service,),
                [f"Service({service})"],
            )
            await submit(engine, cmd.PermissionRemove(session=session, id=answer.kept[0].id))
            again = await engine.submit(cmd.PermissionRemove(session=session, id=answer.kept[0].id))
            assert isinstance(again, cmd.Reject)
            assert (await engine.query(q.PermissionsQuery(session=session))).kept == ()
            await turn(engine, session)
            assert server.heard == [b"hello"]


async def test_what_is_taken_back_ends_the_connections_that_it_let_through(auto):
    heard, left = asyncio.Event(), asyncio.Event()

    async def hold(reader, writer) -> None:
        heard.set()
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    service = f"localhost:{server.sockets[0].getsockname()[1]}"
    text = f"import socket; s = socket.create_connection(('localhost', {service[10:]})); print('ended', s.recv(9))"
    job = command(f'python3 -c "{text}"', is_background=True)
    async with server, engine_of(auto, asking("true", service), job, says("ok")) as (engine, session):
        await turn(engine, session, "allow_session")
        await heard.wait()
        async with aclosing(engine.events(session, after=engine.state(session).seq)) as stream:
            await submit(engine, cmd.PermissionRemove(session=session, id=f"session:Service({service})"))
            async for envelope in stream:
                if isinstance(envelope.event, ev.JobEnded):
                    break
        await left.wait()
        kinds = [entry.kind for entry in audit(engine, session)]
        assert kinds.index("grant.revoked") < kinds.index("service.ended")


async def test_the_agent_is_told_of_a_port_at_which_nothing_answers(auto):
    async with tcp_server() as server:
        port = server.port
    steps = [asking(f"python3 ask.py {port} hello", f"localhost:{port}"), says("ok")]
    async with engine_of(auto, *steps) as (engine, session):
        await turn(engine, session, "allow_once")
        assert f"Nothing answered on the user's machine at localhost:{port}" in results(engine, session)[0]


async def test_a_rule_grants_a_port_without_a_question_and_also_without_a_user(auto):
    async with tcp_server() as server:
        configured(f'[permissions]\nallow = ["Service(localhost:{server.port})"]\n')
        say = f"python3 ask.py {server.port} hello"
        async with engine_of(auto, command(say), says("ok"), interactive=False) as (engine, session):
            await run_turn(engine, session)
            assert documents(engine, session)[0].output == "answer: HELLO 5\n"


@pytest.mark.parametrize("interactive", [True, False])
async def test_a_rule_refuses_a_service_and_that_is_said(auto, interactive):
    configured('[permissions]\ndeny = ["Service(*)"]\nallow = ["Service(localhost:5432)"]\n')
    step = asking("python3 ask.py 5432 hello", "localhost:5432")
    async with engine_of(auto, step, says("ok"), interactive=interactive) as (engine, session):
        await run_turn(engine, session)
        assert "localhost:5432 was not granted: one of the user's rules denies it" in results(engine, session)[0]
        assert "refused:" in documents(engine, session)[0].output


async def test_without_a_user_a_service_is_not_granted_by_asking(auto):
    async with tcp_server() as server:
        step = asking(f"python3 ask.py {server.port} hello", f"localhost:{server.port}")
        async with engine_of(auto, step, says("ok"), interactive=False) as (engine, session):
            seen = await run_turn(engine, session)
            assert [event.by for event in seen if isinstance(event, ev.ApprovalResolved)] == ["program"]
            assert server.heard == []


async def test_i8_after_foreign_text_a_rule_alone_reaches_no_service(auto):
    async with tcp_server() as server:
        configured(f'[permissions]\nallow = ["Service(localhost:{server.port})"]\n')
        say, service = f"python3 ask.py {server.port} hello", f"localhost:{server.port}"
        async with engine_of(auto, command(say), asking(say, service), says("ok")) as (engine, session):
            engine._find_session(session).emit(ev.ForeignReceived(source="evil.example"))
            assert len(asked(await turn(engine, session, "allow_once"))) == 1
            assert server.heard == [b"hello"]
            assert documents(engine, session)[0].output.startswith("refused:")


async def test_a_command_that_calls_the_proxy_itself_gets_no_further(auto):
    async with tcp_server() as server:
        head = f"AGENT-TUI-SERVICE localhost:{server.port}\\r\\n\\r\\nhello"
        text = f"exec 3<>/dev/tcp/127.0.0.1/3128 && printf '{head}' >&3 && timeout 20 cat <&3; echo end"
        async with engine_of(auto, command(text), says("ok")) as (engine, session):
            await turn(engine, session)
            assert documents(engine, session)[0].output == "end\n"
            assert server.heard == []
            assert "service.refused" in [entry.kind for entry in audit(engine, session)]


# sockets


SOCKETS = [("docker", "DOCKER_HOST", "unix://{}"), ("ssh-agent", "SSH_AUTH_SOCK", "{}")]


@pytest.mark.parametrize(("name", "variable", "form"), SOCKETS)
async def test_s6_a_socket_is_reached_by_its_name_alone_and_where_its_variable_says(
    auto, short, monkeypatch, name, variable, form
):
    monkeypatch.setenv(variable, form.format(short / "real.sock"))
    say = f'python3 ask.py "${{{variable}#unix://}}" hello; ls {short} 2>&1 | grep -c real.sock'
    engine_there = engine_of(auto, asking(say, name), command(say), says("ok"))
    async with unix_server(short / "real.sock") as server, engine_there as (engine, session):
        [request] = asked(await turn(engine, session, "allow_once"))
        assert request.network == (name,)
        granted, other = documents(engine, session)
        assert granted.output == "answer: HELLO 5\n0\n"
        assert "answer" not in other.output
        assert server.heard == [b"hello"]


async def test_docker_is_where_its_programs_look_for_it(auto, short, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{short}/real.sock")
    async with unix_server(short / "real.sock"):
        say = "python3 ask.py /var/run/docker.sock hello; echo $DOCKER_HOST"
        async with engine_of(auto, asking(say, "docker"), says("ok")) as (engine, session):
            await turn(engine, session, "allow_once")
            assert documents(engine, session)[0].output == "answer: HELLO 5\nunix:///run/docker.sock\n"


@pytest.fixture
def display() -> Iterator[Path]:
    """Where the socket of a display that nobody has would be."""
    place = Path("/tmp/.X11-unix/X938")
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    yield place
    place.unlink(missing_ok=True)


async def test_a_window_system_is_at_a_display_of_the_boxs_own(auto, monkeypatch, display):
    monkeypatch.setenv("DISPLAY", ":938.0")
    async with unix_server(display) as server:
        say = 'python3 ask.py /tmp/.X11-unix/X${DISPLAY#:} hello; echo "$DISPLAY"'
        async with engine_of(auto, asking(say, "x11"), says("ok")) as (engine, session):
            await turn(engine, session, "allow_once")
            assert documents(engine, session)[0].output == "answer: HELLO 5\n:0\n"
            assert server.heard == [b"hello"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("docker", "the user's machine has no such socket"),
        ("ssh-agent", "the user's machine has no such socket"),
        ("x11", "the user's machine has no such socket"),
        ("wayland", "share memory"),
        ("localhost:3128", "the sandbox itself listens"),
    ],
)
async def test_what_can_not_be_reached_is_not_asked_about_and_that_is_said(auto, monkeypatch, name, why):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere/agent.sock")
    monkeypatch.setenv("DISPLAY", "other-machine:0")
    async with engine_of(auto, asking("echo ran", name), says("ok")) as (engine, session):
        assert asked(await turn(engine, session)) == []
        assert f"{name} was not granted" in results(engine, session)[0]
        assert why in results(engine, session)[0]
        assert documents(engine, session)[0].output == "ran\n"


@pytest.mark.parametrize("tier", [each for each in offered() if each is not Tier.NAMESPACES])
async def test_a_tier_that_leads_to_no_service_says_so(tmp_path, tier):
    async with boxed(
        tmp_path, asking("echo ran", "localhost:5432", "docker", "network"), says("ok"), tier=tier
    ) as case:
        case.answer_approvals("allow_once")
        await case.turn()
        assert f"localhost:5432 was not granted: this machine's sandbox ({tier.value})" in case.results()[0]
        assert "docker was not granted" in case.results()[0]
        assert (
            f"network was not granted: commands have no network in this machine's sandbox ({tier.value})"
            in case.results()[0]
        )
        assert "ran" in case.results()[0]


async def test_m8_more_services_than_a_question_can_show_are_not_granted(auto):
    services = [f"localhost:{20_000 + index}" for index in range(5)]
    async with engine_of(auto, asking("echo ran", *services), says("ok")) as (engine, session):
        assert asked(await turn(engine, session)) == []
        assert "at most 4 services" in results(engine, session)[0]
        assert documents(engine, session)[0].permissions == ()


async def test_a_port_that_is_no_port_is_refused(auto):
    for service in ("localhost:0", "localhost:99999", "example.org:80", "localhost:5432x"):
        async with engine_of(auto, asking("echo ran", service), says("ok")) as (engine, session):
            await turn(engine, session)
            assert documents(engine, session)[0].permissions == ()
