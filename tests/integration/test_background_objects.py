"""Background agents of a team whose files are in an object store: a real PostgreSQL, and a real server of S3."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.background.control import delete_agent, pull_agent, start_agent
from core.background.locations import get_agent_dir, open_store
from core.background.object_store import ObjectStore, parse_address
from core.background.records import AgentRequest
from core.background.store import StoreUnavailable
from core.errors import ConfigError, StateError
from core.filesystem.removal import remove_tree
from tests.support.background import EDIT, all_ended, opened, play, read_changes, wait_for, working
from tests.support.s3 import S3Server, s3_server

PROGRAM = (sys.executable, str(Path(__file__).parents[2] / "agent_tui.py"))


@pytest.fixture
def s3(monkeypatch) -> Iterator[S3Server]:
    with s3_server() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
        yield server


async def count_rows(store: object, table: str) -> int:
    rows = await store._execute(f"SELECT count(*) FROM agent_tui_{table}")  # type: ignore[attr-defined]
    return int(rows[0][0])


async def test_files_of_an_agent_are_objects_from_which_it_is_pulled_as_hunks_until_it_is_deleted(
    tmp_path, project, postgres, s3
):
    async with opened(open_store(postgres.url, blobs=s3.address())) as store:
        async with working(store):
            model = play(tmp_path, (EDIT, "Done."))
            request = AgentRequest(task_description="Change it", workspace_path=str(project), model=model)
            agent = await start_agent(store, request, ())
            [ended] = await wait_for(store, all_ended)
        assert (ended.state, ended.pending) == ("done", 1)
        keys = s3.list_keys()
        assert any(key.startswith(f"agents/{agent.id}/blobs/") for key in keys)
        assert all(key.startswith(f"agents/{agent.id}/") for key in keys)
        assert (await count_rows(store, "files"), await count_rows(store, "objects")) == (0, len(keys))
        assert await store.read_log(agent.id)

        remove_tree(get_agent_dir(agent.id))  # as on the machine of a user who has nothing of it
        assert list(await read_changes(project, await pull_agent(store, ended, project))) == ["a.txt"]

        await delete_agent(store, ended)
        assert s3.list_keys() == []
        assert await count_rows(store, "objects") == 0
        assert await store.list_agents() == []


async def test_a_result_waits_until_the_object_store_takes_it_and_says_so_meanwhile(tmp_path, project, postgres, s3):
    model = play(tmp_path, (EDIT, "Done."))
    request = AgentRequest(task_description="Change it", workspace_path=str(project), model=model)
    async with opened(open_store(postgres.url, blobs=s3.address())) as store, working(store):
        first = await start_agent(store, request, ())
        await wait_for(store, all_ended)
        await delete_agent(store, (await store.list_agents())[0])
        s3.delete_bucket()
        agent = await start_agent(store, request, ())
        assert agent.id != first.id
        [waiting] = await wait_for(store, lambda agents: bool(agents[0].message))
        assert (waiting.state, waiting.message) == (
            "running",
            "The object store has no bucket 'team'. Create it, or correct background.blobs.",
        )
        s3.create_bucket()
        [ended] = await wait_for(store, all_ended)
        assert (ended.state, ended.message, ended.attempt) == ("done", "Done.", 1)
        assert s3.list_keys()
        assert list(await read_changes(project, await pull_agent(store, ended, project))) == ["a.txt"]


async def test_files_are_found_where_they_were_kept_whatever_is_configured_by_now(postgres, s3):
    both = open_store(postgres.url), open_store(postgres.url, blobs=s3.address())
    async with opened(both[0]) as rows, opened(both[1]) as objects:
        await rows.store_file("bga_0000000000000001", "blobs/old", b"in a row")
        assert [file async for file in objects.read_files("bga_0000000000000001")] == [("blobs/old", b"in a row")]
        large = bytes(range(256)) * 40_000  # of several parts
        await objects.store_file("bga_0000000000000002", "blobs/new", large)
        await objects.store_file("bga_0000000000000003", "blobs/other", b"of another agent")
        assert [file async for file in objects.read_files("bga_0000000000000002")] == [("blobs/new", large)]
        for refused in (rows.read_files("bga_0000000000000002").__anext__(), rows.delete("bga_0000000000000002")):
            with pytest.raises(ConfigError, match="are in s3://team/agents, and no object store is configured"):
                await refused
        await objects.delete("bga_0000000000000002")
        assert s3.list_keys() == ["agents/bga_0000000000000003/blobs/other"]


async def test_a_file_that_somebody_took_away_is_told(s3):
    store = ObjectStore(parse_address(s3.address()))
    await store.check()
    with pytest.raises(StateError, match="missing from s3://team/agents"):
        await store.read("bga_0000000000000001", "blobs/gone")


async def test_a_profile_file_has_the_credentials_and_another_one_is_chosen_by_its_name(tmp_path, monkeypatch, s3):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    place = tmp_path / "profiles"
    place.write_text(
        "[default]\naws_access_key_id = AKIAUNKNOWN\naws_secret_access_key = x\n"
        f"[team]\naws_access_key_id = {s3.key}\naws_secret_access_key = {s3.secret}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(place))
    address = parse_address(s3.address())
    with pytest.raises(StoreUnavailable, match="InvalidAccessKeyId"):
        await ObjectStore(address).check()
    monkeypatch.setenv("AWS_PROFILE", "team")
    await ObjectStore(address).put("bga_0000000000000001", "blobs/a", b"a")
    assert s3.list_keys() == ["agents/bga_0000000000000001/blobs/a"]


async def use(store: ObjectStore, verb: str) -> None:
    match verb:
        case "check":
            await store.check()
        case "put":
            await store.put("bga_0000000000000001", "blobs/a", b"a")
        case "read":
            await store.read("bga_0000000000000001", "blobs/a")
        case _:
            await store.delete("bga_0000000000000001")


@pytest.mark.parametrize("verb", ["check", "put", "read", "delete"])
async def test_each_failure_of_an_object_store_says_what_to_do_and_nothing_secret(monkeypatch, s3, verb):
    with pytest.raises(StoreUnavailable, match="no bucket 'other'") as missing:
        await use(ObjectStore(parse_address(s3.address("other/agents"))), verb)
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StoreUnavailable, match=f"can't be reached at {endpoint}") as away:
            await use(ObjectStore(parse_address(f"s3://team?endpoint={endpoint}")), verb)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-right-one")
    with pytest.raises(StoreUnavailable, match="refuses access to s3://team/agents: SignatureDoesNotMatch") as refused:
        await use(ObjectStore(parse_address(s3.address())), verb)
    for caught in (missing, away, refused):
        assert caught.value.hint
        message = caught.value.format_with_hint()
        assert all(secret not in message for secret in (s3.key, s3.secret, "not-the-right-one"))


def test_a_worker_that_can_not_use_the_object_store_takes_no_agents_and_says_why(monkeypatch, postgres, s3):
    monkeypatch.setenv("AGENT_TUI_BLOBS", s3.address("other"))
    words = [*PROGRAM, "agents", "worker", "--database", postgres.url]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode
    assert "The object store has no bucket 'other'." in ended.stderr
    assert "Create it, or correct background.blobs." in ended.stderr
