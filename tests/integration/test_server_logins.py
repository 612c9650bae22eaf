"""Logins to remote servers: how one comes about, is kept alive, and reaches sessions that run."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull
from msgspec.structs import replace

from core.errors import AgentTuiError, ToolFailed
from core.mcp.http_link import HttpLink, build_target
from core.mcp.login_flow import RedirectListener, cancel_elicitation, choose_scope, list_scopes, log_in, log_out
from core.mcp.logins import Login, LoginStore
from core.mcp.server_config import OAuthOptions, ServerConfig, Variables
from core.mcp.wire.sdk_connection import SdkConnection
from core.user_dirs import get_state_dir
from tests.integration.test_mcp_servers import results, script, told
from tests.integration.test_remote_servers import configure, far
from tests.support.mcp_http import HttpServer, serving
from tests.support.oauth_server import Issuer
from tests.support.open_session import run_turn, session_in

ROOT = Path(__file__).parents[2]
VARIABLES = Variables(Path("/nowhere"), os.environ)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


class Browser:
    """Follows where it is sent, as a user's would."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.shown: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self, url: str) -> None:
        self.pages.append(url)
        self._tasks.append(asyncio.create_task(self._visit(url)))

    async def _visit(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as client:
            self.shown.append((await client.get(url)).text)


def config_of(server: HttpServer, **more: Any) -> ServerConfig:
    return ServerConfig(name="far", url=server.url, transport="http", **more)


async def test_a_login_goes_through_the_browser_and_the_server_can_be_used(tmp_path, project):
    issuer, browser = Issuer(), Browser()
    async with serving(issuer.build_server) as server:
        configure(server.url)
        model = script(tmp_path, far("say", text="hi"), "Done.")
        message = await log_in(config_of(server), VARIABLES, browser)
        assert message.startswith(f"Logged in to far at http://127.0.0.1:{server.port}")
        assert "You are logged in" in browser.shown[0]
        assert "code_challenge_method=S256" in browser.pages[0]
        async with session_in(project, model=model, trust=True) as (engine, session):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "hi"
    assert issuer.logins == 1


async def test_k4_what_is_kept_is_the_users_alone_and_the_list_of_logins_holds_no_token():
    issuer = Issuer()
    async with serving(issuer.build_server) as server:
        await log_in(config_of(server), VARIABLES, Browser())
    tokens, known = get_state_dir() / "keys.json", get_state_dir() / "mcp-logins.json"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tokens, known)] == [0o600, 0o600]
    assert not [token for token in (*issuer.access, *issuer.refresh) if token in known.read_text()]


async def test_without_a_login_the_user_is_told_how_and_one_in_another_terminal_counts_at_once(
    tmp_path, project, monkeypatch
):
    issuer = Issuer()
    async with serving(issuer.build_server) as server:
        configure(server.url)
        called = {"tool_calls": [dict(zip(("name", "arguments"), far("say", text="hi"), strict=True))]}
        turns = [{"steps": [{"text": "Done."}]}, {"steps": [called, {"text": "Done."}]}]
        (tmp_path / "turns.json").write_text(json.dumps({"turns": turns}))
        model = f"scripted/{tmp_path / 'turns.json'}"
        async with session_in(project, model=model, trust=True) as (engine, session):
            await run_turn(engine, session)
            assert "127.0.0.1 requires a login (401): agent-tui mcp login far" in told(engine, session)
            await log_in(config_of(server), VARIABLES, Browser())
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "hi"


async def test_a_token_that_ended_is_refreshed_before_it_is_sent(tmp_path, project):
    issuer = Issuer(seconds=1)  # less than the margin: each is over when it is read again
    async with serving(issuer.build_server) as server:
        configure(server.url)
        await log_in(config_of(server), VARIABLES, Browser())
        issuer.seconds = 3600
        async with session_in(project, model=script(tmp_path, far("say", text="hi"), "."), trust=True) as (
            engine,
            session,
        ):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "hi"
    assert (issuer.refreshed, issuer.logins) == (1, 1)


async def test_a_token_that_is_refused_is_refreshed_once(tmp_path, project):
    issuer = Issuer()
    async with serving(issuer.build_server) as server:
        configure(server.url)
        await log_in(config_of(server), VARIABLES, Browser())
        issuer.access.clear()
        async with session_in(project, model=script(tmp_path, far("say", text="hi"), "."), trust=True) as (
            engine,
            session,
        ):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "hi"
    assert issuer.refreshed == 1


async def test_what_the_issuer_refuses_for_good_is_not_asked_again(tmp_path, project):
    issuer = Issuer()
    async with serving(issuer.build_server) as server:
        configure(server.url)
        await log_in(config_of(server), VARIABLES, Browser())
        issuer.access.clear()
        issuer.refresh.clear()
        async with session_in(project, model=script(tmp_path, "Done."), trust=True) as (engine, session):
            await run_turn(engine, session)
            assert "requires a login (401): agent-tui mcp login far" in told(engine, session)
    assert sum(path == "/token" for _, path, _ in server.requests) == 2  # the login's, and one refresh


async def test_many_processes_refresh_once_though_the_issuer_rotates_its_tokens(tmp_path):
    issuer = Issuer(seconds=1)
    async with serving(issuer.build_server) as server:
        await log_in(config_of(server), VARIABLES, Browser())
        issuer.seconds = 3600
        words = [sys.executable, str(ROOT / "tests" / "support" / "mcp_caller.py"), server.url]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        started = [await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=PIPE, env=env) for _ in range(4)]
        outputs = await asyncio.gather(*(process.communicate() for process in started))
        assert [out.decode() for out, _ in outputs] == ["hi\n"] * 4, outputs
    assert (issuer.refreshed, issuer.logins) == (1, 1)


async def test_a_login_that_is_refused_says_why():
    issuer = Issuer(refuses=True)
    async with serving(issuer.build_server) as server:
        with pytest.raises(ToolFailed, match="the login was refused: access_denied not you"):
            await log_in(config_of(server), VARIABLES, Browser())
        assert LoginStore(server.url).load() is None


async def test_a_login_that_nobody_comes_back_from_ends():
    async with serving(Issuer().build_server) as server:
        with pytest.raises(ToolFailed, match="nobody logged in"):
            await log_in(config_of(server), VARIABLES, lambda _: None, seconds=1.0)


async def test_a_server_without_a_login_and_one_that_is_no_remote_say_so():
    async with serving() as server:
        assert await log_in(config_of(server), VARIABLES, Browser()) == "far needs no login."
    with pytest.raises(AgentTuiError, match="a local program: it has"):
        await log_in(ServerConfig(name="near", command=("true",)), VARIABLES, Browser())


async def test_a_logout_leaves_nothing():
    issuer = Issuer()
    async with serving(issuer.build_server) as server:
        await log_in(config_of(server), VARIABLES, Browser())
        assert log_out(config_of(server), VARIABLES)
        assert LoginStore(server.url).load() is None
        assert not log_out(config_of(server), VARIABLES)
    assert not [token for token in issuer.refresh if token in (get_state_dir() / "keys.json").read_text()]


async def test_a_client_of_the_users_own_is_not_registered():
    issuer, browser = Issuer(), Browser()
    async with serving(issuer.build_server) as server:
        oauth = OAuthOptions(client_id="mine", client_secret="word-of-mine")
        client = {"client_id": "mine", "client_secret": "word-of-mine", "scope": "use"}
        async with RedirectListener(oauth) as free:
            port = int(free.address.rpartition(":")[2].partition("/")[0])
        await issuer.register_client(
            OAuthClientInformationFull.model_validate(
                {
                    **client,
                    "redirect_uris": [f"http://localhost:{port}/callback"],
                    "token_endpoint_auth_method": "client_secret_basic",
                }
            )
        )
        await log_in(config_of(server, oauth=replace(oauth, port=port)), VARIABLES, browser)
        assert set(issuer.clients) == {"mine"}
        login = LoginStore(server.url).load()
        assert login is not None
        assert (login.client_id, login.client_secret) == ("mine", "word-of-mine")


async def test_a_login_asks_for_the_rights_that_the_entry_names():
    issuer, browser = Issuer(), Browser()
    async with serving(issuer.build_server) as server:
        config = config_of(server, oauth=OAuthOptions(scopes=("use", "offline_access")))
        with pytest.raises(AgentTuiError, match="refused"):  # this issuer grants one of them alone
            await log_in(config, VARIABLES, browser)
    assert "scope=use+offline_access" in browser.pages[0]


async def test_only_who_was_sent_away_is_taken_back():
    async with RedirectListener(OAuthOptions()) as listener, httpx2.AsyncClient(trust_env=False) as client:
        listener.state = "the-state"
        address = listener.address
        assert (await client.get(address.replace("/callback", "/"))).status_code == 404
        assert (await client.get(f"{address}?code=x&state=another")).status_code == 400
        assert (await client.post(f"{address}?code=x&state=the-state")).status_code == 404
        assert (await client.get(f"{address}?code=good&state=the-state&iss=https://issuer")).status_code == 200
        redirect = await listener.wait()
        assert (redirect.code, redirect.issuer) == ("good", "https://issuer")


async def test_rights_that_a_server_misses_are_told_and_asked_for_by_the_next_login():
    challenge = b'Bearer error="insufficient_scope", scope="use write"'

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"www-authenticate", challenge)]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async with HttpServer(refuse, lifespan="off") as server:
        store = LoginStore(server.url)
        store.save(Login(issuer="https://a.example", token_endpoint="", client_id="x", access_token="t", scope="read"))
        config = config_of(server)
        link = HttpLink(config, build_target(config, VARIABLES))
        connection = SdkConnection(link.open_streams(), lambda: None, cancel_elicitation)
        await connection.load()
        with pytest.raises(ToolFailed):
            await connection.open(60.0, "")
    assert link.problem == "127.0.0.1 requires a login with more rights (use write): agent-tui mcp login far"
    rights = list_scopes(store)
    assert rights == ("read", "use", "write")
    assert choose_scope("https://a.example/auth?scope=use&state=1", (), rights).endswith("=use+read+write&state=1")
    assert choose_scope("https://a.example/auth?state=1", (), ()) == "https://a.example/auth?state=1"
    assert choose_scope("https://a.example/auth?scope=all", ("use",), ("read",)).endswith("?scope=use+read")
