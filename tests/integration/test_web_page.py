"""The page of `serve --web` in a real Chromium: what it shows and does, and what a page of another origin can't."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from core.transports.session_client import SessionView
from tests.support.agent_case import calls, says
from tests.support.chromium import PROGRAM as CHROMIUM
from tests.support.chromium import browsing
from tests.support.http_server import CHAT, SESSIONS, TOKENS, Served, prompt, serving
from tests.support.story import access, project_at
from tests.support.web_host import WebHost, page

chromium = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium here")
EDIT = {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}
PLAY = [calls(("search_replace", EDIT)), says("It is louder <b>now</b>."), says("Nothing more to do.")]
TERMINALS = "/api/v1/terminals"
ATTACK = """<!doctype html><title>Evil</title><iframe name=out></iframe><script>
const [U, S, TOKEN, TICKET] = JSON.parse(decodeURIComponent(location.hash.slice(1)));
const verdict = JSON.stringify({ verdict: "accept" });
const bearer = { Authorization: `Bearer ${TOKEN}` }, json = { "Content-Type": "application/json" };
const tell = (work) => work.then((said) => said, () => "refused");
const send = (path, init) => tell(fetch(U + path, init).then((answer) => answer.type === "opaque" ? "sent" : "read"));
const listen = (source) => new Promise((resolve) => {
  source.onopen = source.onmessage = () => resolve("open");
  source.onerror = () => resolve("refused");
});
const load = (source) => new Promise((resolve) => {
  const script = Object.assign(document.createElement("script"), { src: source });
  script.onload = () => resolve("loaded");
  script.onerror = () => resolve("refused");
  document.head.append(script);
});
const post = () => new Promise((resolve) => {
  const form = Object.assign(document.createElement("form"), { action: `${U}${S}/verdicts`, target: "out" });
  Object.assign(form, { method: "POST", enctype: "text/plain" });
  form.append(document.createElement("input"));
  Object.assign(form.firstChild, { name: '{"verdict": "accept", "reason": "', value: '"}' });
  document.body.append(form);
  document.querySelector("iframe").onload = () => resolve("sent");
  form.submit();
});
const web = U.replace("http", "ws");
const all = async () => ({
  fetch: await send(S),
  "fetch with a token": await send(S, { headers: bearer }),
  "post with a token": await send(`${S}/verdicts`, { method: "POST", body: verdict, headers: { ...bearer, ...json } }),
  "simple post": await send(`${S}/verdicts`, { method: "POST", body: verdict, mode: "no-cors" }),
  form: await post(),
  events: await listen(new EventSource(`${U}${S}/events`)),
  terminal: await listen(new WebSocket(`${web}${TICKET}`)),
  "socket with a token": await listen(new WebSocket(`${web}${TICKET}`, [`agent-tui.token.${TOKEN}`])),
  script: await load(`${U}/static/review.js`),
});
all().then((found) => { window.found = found; });
</script>"""


@contextlib.asynccontextmanager
async def served_hunk(tmp_path: Path) -> AsyncIterator[tuple[Served, str, Path]]:
    """A server with its page, a session with an edit that waits, and the project."""
    project = project_at(tmp_path / "project")
    async with serving(project, access(PLAY), has_page=True) as served, served.client() as client:
        response = (await client.post(CHAT, json=prompt("Make it louder"))).json()
        assert response["status"] == "completed"
        yield served, response["conversationId"].replace("conv_", "ses_"), project


async def ask_ticket(served: Served, session: str) -> str:
    async with served.client() as client:
        return str((await client.post(TERMINALS, json={"session": session})).json()["path"])


def anybody(served: Served) -> httpx2.AsyncClient:
    """A client without a token."""
    return httpx2.AsyncClient(base_url=served.url, timeout=30, trust_env=False)


def find_screens(session: str) -> list[psutil.Process]:
    """The screens of a session that this process has started and that live."""
    living = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return [process for process in living if session in process.cmdline()]


@chromium
async def test_a_hunk_is_accepted_from_a_phone(tmp_path):
    async with served_hunk(tmp_path) as (served, session, project), browsing(tmp_path) as tab:
        await tab.open(f"{served.url}/#{TOKENS.approve}")
        listed = await tab.see("document.querySelector('.row')?.innerText")
        assert ("Make it louder" in listed, "1 to review" in listed) == (True, True)
        await tab.tap(".row", "document.querySelector('pre .added')")
        script = "[...document.querySelectorAll('pre span')].map((each) => each.textContent)"
        assert await tab.run(script) == [" one", "-two", "+TWO", " three"]
        assert "It is louder <b>now</b>." in await tab.run("document.querySelector('details').textContent")
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        await tab.tap(".actions .yes", "document.body.innerText.includes('Nothing pending review.')")
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
        assert await tab.run("[location.hash, location.search]") == ["", f"?session={session}"]
        assert tab.complaints == []


@chromium
async def test_the_terminal_page_is_the_real_screen_of_the_session(tmp_path):
    async with served_hunk(tmp_path) as (served, session, _):
        view = SessionView(await served.service.find(session), session)
        async with browsing(tmp_path, 1280, 800) as tab:
            await tab.open(f"{served.url}/terminal?session={session}#{TOKENS.approve}")
            await tab.wait_drawn("1 to review")
            for character in "More":
                await tab.press(character)
            await tab.press("\r", "Enter", 13)
            async with asyncio.timeout(30):
                await view.wait_until(lambda: len(view.state.turns) == 2 and view.state.current_turn is None)
            await tab.wait_drawn("Nothing more to do.")
            assert tab.complaints == []
            screens = find_screens(session)
            assert len(screens) == 1
        ended_screens, alive = await asyncio.to_thread(psutil.wait_procs, screens, 30)
        assert (len(ended_screens), alive) == (1, [])
        await view.close()


@chromium
async def test_a_page_of_another_origin_can_do_nothing_not_even_with_a_token(tmp_path):
    async with (
        served_hunk(tmp_path) as (served, session, project),
        WebHost({"/": page(ATTACK)}) as evil,
        browsing(tmp_path) as tab,
    ):
        ticket = await ask_ticket(served, session)
        arguments = json.dumps([served.url, f"{SESSIONS}/{session}", TOKENS.approve, ticket])
        await tab.open(f"http://127.0.0.1:{evil.port}/#{arguments}")
        outcomes = await tab.see("window.found")
        assert {what for what, outcome in outcomes.items() if outcome != "refused"} == {
            "form"
        }  # it is sent, and answered by 403
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        async with served.client() as client:
            assert len((await client.get(f"{SESSIONS}/{session}")).json()["pendingChanges"]) == 1
        assert served.service.terminals is not None
        assert served.service.terminals.tickets.redeem(ticket.rpartition("/")[2]) == session


async def test_a_terminal_needs_a_ticket_which_opens_it_once_for_a_page_of_ours(tmp_path):
    async with served_hunk(tmp_path) as (served, session, _):
        ticket = await ask_ticket(served, session)
        at = served.url.replace("http", "ws")
        for path, origin, status in (
            (ticket, "http://evil.example", 403),
            (ticket, "null", 403),
            ("/api/v1/other", served.url, 401),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(at + path, origin=origin, proxy=None)
            assert refused.value.response.status_code == status
        with pytest.raises(InvalidStatus):
            await connect(at + ticket + "x", origin=served.url, proxy=None)
        async with connect(at + ticket + "?width=90&height=30", origin=served.url, proxy=None) as socket:
            assert b"\x1b[?1049h" in await socket.recv()
            with pytest.raises(InvalidStatus):
                await connect(at + ticket, origin=served.url, proxy=None)
        async with served.client(TOKENS.drive) as client:
            assert (await client.post(TERMINALS, json={"session": session})).status_code == 403


async def test_the_page_holds_no_secret_and_is_framed_by_nobody(tmp_path):
    project = project_at(tmp_path / "project")
    async with serving(project, access(), has_page=True) as served, anybody(served) as client:
        for path in ("/", "/terminal", "/static/review.js", "/static/xterm/js/textual.js"):
            answer = await client.get(path)
            policy = answer.headers["content-security-policy"]
            assert (answer.status_code, "default-src 'none'" in policy) == (200, True)
            assert (answer.headers["x-content-type-options"], answer.headers["referrer-policy"]) == (
                "nosniff",
                "no-referrer",
            )
            assert not any(token in answer.text for token in (TOKENS.read, TOKENS.drive, TOKENS.approve))
            assert (await client.get(path, headers={"Host": "evil.example"})).status_code == 421
        assert "frame-ancestors 'none'" in (await client.get("/")).headers["content-security-policy"]
        for path in ("/static/../routes.py", "/static/xterm/../server.py", "/static/xterm/images/background.png"):
            assert (await client.get(path)).status_code in {401, 404}
    async with serving(project, access()) as served, anybody(served) as client:
        assert (await client.get("/")).status_code == 401
