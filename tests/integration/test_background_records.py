"""Records of background agents that others changed: a row of a database is foreign text, and nothing follows it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from core.background.control import delete_agent, pull_agent
from core.background.locations import get_agent_dir, get_agents_dir, open_store
from core.background.records import AgentRequest, BackgroundAgent
from core.errors import StateError
from core.filesystem.removal import remove_tree
from core.sessions.store import SessionStore
from tests.support.background import opened

ID = "bga_0000000000000001"
OTHER = "bga_0000000000000002"
HOSTILE = ("../../../victim", "..", ".", "a/b", "a\\b", "ses\n", "ses\0", "x" * 300, "CON", "~")


def build_row(name: str = ID, **fields: object) -> bytes:
    agent = BackgroundAgent(id=name, request=AgentRequest(task_description="Change it"), state="done")
    return msgspec.json.encode({**msgspec.to_builtins(agent), **fields})


def write_row(record: bytes, name: str = ID, state: str = "done") -> None:
    with sqlite3.connect(get_agents_dir() / "agents.sqlite") as database:
        database.execute("INSERT OR REPLACE INTO agents (id, state, record) VALUES (?, ?, ?)", (name, state, record))


def fill(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "kept.txt").write_text("mine")
    return directory


@pytest.mark.parametrize("session", [*HOSTILE, "absolute"], ids=ascii)
async def test_n36_a_row_with_a_path_for_a_session_is_refused_and_deletes_and_writes_nothing(tmp_path, session):
    victim = fill(tmp_path / "victim")
    async with opened(open_store()) as store:
        write_row(build_row(session=str(victim) if session == "absolute" else session))
        write_row(build_row(OTHER), OTHER)
        with pytest.raises(StateError, match=r"record of a background agent can't be read.*an id") as refused:
            await store.find(ID)
        assert "agents delete" in refused.value.hint
        listed = {agent.id: agent for agent in await store.list_agents()}
        assert (listed[ID].state, listed[OTHER].state) == ("failed", "done")
        assert "can't be read" in listed[ID].message
        await delete_agent(store, listed[ID])
        assert [agent.id for agent in await store.list_agents()] == [OTHER]
    assert [path.name for path in victim.iterdir()] == ["kept.txt"]


async def test_n36_a_queued_row_that_can_not_be_read_keeps_no_other_agent_waiting(tmp_path):
    async with opened(open_store()) as store:
        write_row(build_row(session="../x", state="queued"), state="queued")
        write_row(build_row(OTHER, state="queued"), OTHER, state="queued")
        from core.background.sqlite_store import _claim

        claimed = await store._run(lambda db: _claim(db, "worker"))  # type: ignore[attr-defined]
        assert claimed.id == OTHER


async def keep_session(store: object, path: str) -> BackgroundAgent:
    agent = BackgroundAgent(id=ID, request=AgentRequest(task_description="x"), state="done", session="ses_1", attempt=1)
    await store.add(agent)  # type: ignore[attr-defined]
    await store.store_log(agent, 0, b'{"crc":"00000000","e":{}}\n')  # type: ignore[attr-defined]
    await store.store_file(ID, path, b"planted")  # type: ignore[attr-defined]
    return agent


@pytest.mark.parametrize(
    "path",
    ["../../.bashrc", "/abs", "blobs/../../x", "lock", "blobs/.x", "blobs//x", "other/x", "blobs/a\nb", "log.jsonl"],
)
async def test_n36_a_file_of_a_pulled_session_is_written_below_it_or_not_at_all(tmp_path, project, postgres, path):
    async with opened(open_store(postgres.url)) as store:
        agent = await keep_session(store, path)
        with pytest.raises(StateError, match="is not a path of a session file"):
            await pull_agent(store, agent, project)
        await delete_agent(store, agent)
    written = [file.name for file in tmp_path.rglob("*") if file.is_file() and file.read_bytes() == b"planted"]
    assert written == []


async def test_n36_a_link_in_the_place_of_a_pulled_session_is_not_followed(tmp_path, project, postgres):
    victim = fill(tmp_path / "victim")
    async with opened(open_store(postgres.url)) as store:
        agent = await keep_session(store, "blobs/aa/bb")
        place = SessionStore(get_agent_dir(ID) / "project", get_agent_dir(ID) / "sessions").get_path("ses_1")
        for link in (place, place / "blobs"):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(victim)
            with pytest.raises(StateError):  # what is pulled then begins as no session does
                await pull_agent(store, agent, project)
            assert [path.name for path in victim.rglob("*")] == ["kept.txt"]
            remove_tree(place)
        await delete_agent(store, agent)
    assert (victim / "kept.txt").read_text() == "mine"


async def test_n36_a_record_that_another_version_wrote_is_changed_once_and_not_for_ever(postgres):
    async with opened(open_store(postgres.url)) as store:
        agent = BackgroundAgent(id=ID, request=AgentRequest(task_description="x"), state="done")
        await store.add(agent)
        record = {"later": True, **dict(reversed(msgspec.json.decode(msgspec.json.encode(agent)).items()))}
        await store._execute(  # type: ignore[attr-defined]
            "UPDATE agent_tui_agents SET record = %s WHERE id = %s", (msgspec.json.encode(record), ID)
        )
        assert await store.change_state(ID, {"pulled": True}, only_in=frozenset({"done"}))
        changed = await store.find(ID)
        assert changed is not None
        assert changed.pulled
        assert await store.update(changed, {"message": "again"})
        await store.delete(ID)
