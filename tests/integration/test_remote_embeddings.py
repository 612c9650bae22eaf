"""Meaning by a model of the `embed` route: a strict server on loopback gives vectors, fails, or must not be asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3

import pytest
from msgspec.structs import replace

from core.cli.arguments import parse
from core.cli.index import run
from core.engine.shared import remote_embeddings
from core.index.database import lock_for_building
from core.protocol import queries as q
from tests.support.configured import configured
from tests.support.open_session import session_in
from tests.support.story import access
from tests.support.trust import trust

KEY = "sk-embed-0123456789"
FILES = {
    "mail.py": "def send_receipt(address):\n    post(address)\n",
    "till.py": "class Till:\n    def add_tax(self, price):\n        return price * self.rate\n",
}


class EmbeddingServer:
    """Answers `POST /v1/embeddings` as OpenAI does, and refuses what that refuses. A text's vector tells whether it is
    about money. `failures`: statuses that are answered first."""

    def __init__(self):
        self.texts, self.wrong, self.failures, self.asked = [], [], [], 0

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, answer = self.answer(head[0], headers, body)
                data = json.dumps(answer).encode()
                kind = f"Content-Type: application/json\r\nContent-Length: {len(data)}"
                writer.write(f"HTTP/1.1 {status} X\r\n{kind}\r\n\r\n".encode() + data)
                await writer.drain()
        writer.close()

    def answer(self, request, headers, body):
        self.asked += 1
        if self.failures:
            return self.failures.pop(0), {"error": {"message": "not now"}}
        order = json.loads(body or b"{}")
        texts = order.get("input")
        sound = (
            request == "POST /v1/embeddings HTTP/1.1"
            and headers.get("authorization") == f"Bearer {KEY}"
            and set(order) <= {"model", "input", "encoding_format", "dimensions", "user"}
            and order.get("model") == "small-embed"
            and isinstance(texts, list)
            and 0 < len(texts) <= 2048
            and all(isinstance(text, str) and text for text in texts)
        )
        if not sound:
            self.wrong.append((request, order))
            return 400, {"error": {"message": "that is no request", "type": "invalid_request_error"}}
        self.texts += texts
        rows = [{"object": "embedding", "index": n, "embedding": embed(text)} for n, text in enumerate(texts)]
        return 200, {"object": "list", "data": rows[::-1], "model": "small-embed", "usage": {"total_tokens": 1}}


def embed(text):
    return [1.0, 0.1] if "post" in text or "letters" in text else [0.1, 1.0]


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setattr(remote_embeddings, "_PAUSE", 0.0)
    monkeypatch.setenv("WORK_KEY", KEY)
    embedding_server = EmbeddingServer()
    async with await asyncio.start_server(embedding_server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        embedding_server.url = f"http://127.0.0.1:{port}/v1"
        configure(embedding_server)
        yield embedding_server


def configure(server, beside=""):
    configured(
        f'{beside}\n[providers.work]\nbase_url = "{server.url}"\napi_key_env = "WORK_KEY"\n'
        '[routes.embed]\nmodel = "work/small-embed"\n'
    )


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    trust(root)
    return root


async def ask(engine, session, text="where do letters go"):
    answer = await engine.query(q.SearchQuery(session=session, text=text, kind="meaning"))
    assert isinstance(answer, q.SearchAnswer), answer
    return answer


async def fill(engine, session):
    """Ask once, and wait until the vectors are there, or given up."""
    await engine._load().services.index.wait_ready(30)
    await ask(engine, session)
    meaning = engine._load().services._search._route._embeddings
    await meaning.wait()
    return meaning


async def test_vectors_are_fetched_kept_by_model_and_compared(project, server):
    async with session_in(project, access()) as (engine, session):
        engine._load().services.models = type(engine._models)()  # the real providers
        meaning = await fill(engine, session)
        assert not meaning.problem
        sent = set(server.texts)
        assert {text.rstrip("\n") for text in FILES.values()} <= sent
        answer = await ask(engine, session)
        assert answer.hits[0].path == "mail.py"
        assert "where do letters go" in server.texts, "the question is compared by the same model"
        database = engine._load().services.store.path / "index.sqlite"
        rows = sqlite3.connect(database).execute("select model, count(*) from vectors group by model").fetchall()
        assert dict(rows)["work/small-embed"] == 2
        before = len(server.texts)
        meaning.start_filling()
        await meaning.wait()
        assert len(server.texts) == before, "nothing is sent twice"
    assert not server.wrong


async def test_a_search_from_the_shell_compares_by_the_model_that_sessions_have_asked(project, server, capsys):
    words = parse(["index", "search", "where do letters go", "--limit", "1", str(project)])
    await asyncio.to_thread(run, words)
    output = capsys.readouterr()
    assert "work/small-embed has 0 pieces of the project. Until it has nine tenths" in output.err
    assert server.texts == ["where do letters go"], "a search from the shell fetches no vectors of the project"
    async with session_in(project, access()) as (engine, session):
        engine._load().services.models = type(engine._models)()  # the real providers
        await fill(engine, session)
    server.texts.clear()
    await asyncio.to_thread(run, words)
    output = capsys.readouterr()
    assert (output.out, output.err) == ("mail.py:1-2  send_receipt\n", "")
    assert server.texts == ["where do letters go"] * 2, "the question, and its first line"
    server.failures = [500] * 9
    await asyncio.to_thread(run, words)
    assert "work/small-embed did not answer" in capsys.readouterr().err
    configure(server, "privacy = true")
    before = server.asked
    await asyncio.to_thread(run, words)
    assert "privacy is on" in capsys.readouterr().err
    assert server.asked == before


async def test_why_a_model_was_not_asked_is_said_with_the_answer(project, server):
    async with session_in(project, access()) as (engine, session):
        engine._load().services.models = type(engine._models)()
        await engine._load().services.index.wait_ready(30)
        answer = await ask(engine, session)
        assert "Until it has nine tenths" in answer.status.problem
        await fill(engine, session)
        assert (await ask(engine, session)).status.problem == ""
        server.failures = [500] * 9
        assert "work/small-embed did not answer" in (await ask(engine, session)).status.problem


async def test_what_fails_in_passing_is_tried_again_and_a_refusal_does_not_stop_the_search(
    project, server, monkeypatch
):
    monkeypatch.setattr(remote_embeddings, "pause", lambda seconds: asyncio.sleep(0))
    server.failures = [429, 503]
    async with session_in(project, access()) as (engine, session):
        engine._load().services.models = type(engine._models)()
        meaning = await fill(engine, session)
        assert not meaning.problem
        assert server.asked >= 3
    server.failures = [401] * 50
    (project / "new.py").write_text("def post_letters():\n    pass\n")
    async with session_in(project, access()) as (engine, session):
        engine._load().services.models = type(engine._models)()
        meaning = await fill(engine, session)
        answer = await ask(engine, session, "send_receipt")
        assert answer.hits[0].path == "mail.py"
        assert "work/small-embed returned no vectors" in answer.status.problem
        server.failures = []
        monkeypatch.setattr(remote_embeddings, "_RETRY_SECONDS", 0.0)
        assert not (await fill(engine, session)).problem, "after a while it is asked again"


async def test_one_session_of_a_project_asks_for_vectors_and_the_others_use_them(project, server):
    async with session_in(project, access()) as (engine, session):
        services = engine._load().services
        services.models = type(engine._models)()
        services.store.path.mkdir(parents=True, exist_ok=True)
        lock = lock_for_building(services.store.path / "vectors")
        await fill(engine, session)
        assert server.texts == []
        os.close(lock)
        assert not (await fill(engine, session)).problem
        assert len(server.texts) == len(FILES)


async def test_no_more_is_sent_in_a_run_than_is_said_also_when_it_was_given_up_in_between(project, server, monkeypatch):
    monkeypatch.setattr(remote_embeddings, "MAX_CHUNKS", 1)
    async with session_in(project, access()) as (engine, session):
        services = engine._load().services
        services.models = type(engine._models)()
        await fill(engine, session)
        assert len(server.texts) == 1
        await services._search._route.close()  # as privacy does
        assert "after the next start" in (await fill(engine, session)).problem
        answer = await ask(engine, session, "send_receipt")
        assert (answer.hits[0].path, answer.status.known_to_model) == ("mail.py", 1)
        assert len(server.texts) == 1


async def test_privacy_forbids_it_and_says_so(project, server):
    configure(server, "privacy = true")
    async with session_in(project, access()) as (engine, session):
        engine._load().services.models = type(engine._models)()
        await engine._load().services.index.wait_ready(30)
        answer = await ask(engine, session, "send_receipt")
        assert answer.hits[0].path == "mail.py"
        assert "privacy is on: work/small-embed is not used" in answer.status.problem
    assert server.asked == 0


async def test_what_a_rule_keeps_from_the_agent_is_not_sent_and_privacy_ends_what_is_under_way(project, server):
    (project / "private").mkdir()
    (project / "private" / "funds.py").write_text("def hide_money():\n    pass\n")
    configure(server, '[permissions]\ndeny = ["Read(private/**)"]')
    async with session_in(project, access()) as (engine, session):
        services = engine._load().services
        services.models = type(engine._models)()
        await fill(engine, session)
        assert len(server.texts) >= 2
        assert "hide_money" not in str(server.texts)
        (project / "late.py").write_text("def post_late():\n    pass\n")
        services.index.on_disk_changed(("late.py",))
        services._search._route._embeddings.start_filling()
        services.settings = replace(services.settings, privacy=True)
        await ask(engine, session)
        assert services._search._route._embeddings is None
    assert not server.wrong
