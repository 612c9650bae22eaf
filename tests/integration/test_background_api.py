"""Background agents by HTTP: a real server, a real worker, and what a token may do with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.background.locations import open_store
from tests.support.background import EDIT, all_ended, command, opened, play, wait_for, working
from tests.support.http_server import SESSIONS, TOKENS, parse_stream, serving

AGENTS = "/api/v1/background-composers"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "served" / "project"
    root.mkdir(parents=True)
    (root / "a.txt").write_text("one\n")
    return root


async def test_an_agent_is_started_followed_spoken_to_and_pulled_into_a_review(tmp_path, project):
    model = play(tmp_path, (EDIT, "Done."), ("Really done.",))
    async with serving(project) as served, opened(open_store()) as store, working(store), served.client() as client:
        response = await client.post(AGENTS, json={"taskDescription": "Change it", "model": model})
        assert (response.status_code, response.json()["state"]) == (201, "queued")
        at = f"{AGENTS}/{response.json()['id']}"
        events = parse_stream((await client.get(f"{at}/events")).text)
        assert [events[0].data["id"], events[-2].data["state"], events[-1].data] == [
            response.json()["id"],
            "done",
            "[DONE]",
        ]
        assert {event.name for event in events[:-1]} == {"agent.changed"}
        assert (await client.post(f"{at}/messages", json={"text": "Are you sure?"})).status_code == 202
        assert parse_stream((await client.get(f"{at}/events")).text)[-2].data["message"] == "Really done."
        pulled = await client.post(f"{at}/pull", json={})
        assert (pulled.status_code, pulled.json()["pending"]) == (200, 1)
        hunks = (await client.get(f"{SESSIONS}/{pulled.json()['session']}/hunks")).json()
        assert [change["path"] for change in hunks["changes"]] == ["a.txt"]
        again = await client.post(f"{at}/pull", json={})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "session_exists")
        assert (await client.delete(at)).status_code == 204
        assert (await client.get(AGENTS)).json() == {"agents": []}
        assert (await client.get(at)).json()["error"]["code"] == "agent_unknown"
    assert (project / "a.txt").read_text() == "one\n"


async def test_an_agent_that_runs_is_stopped_and_is_not_forgotten_or_pulled_before(tmp_path, project):
    model = play(tmp_path, (command("sleep 60"), "Done."))
    async with serving(project) as served, opened(open_store()) as store, working(store), served.client() as client:
        response = await client.post(AGENTS, json={"taskDescription": "Run it", "model": model})
        at = f"{AGENTS}/{response.json()['id']}"
        following = asyncio.create_task(client.get(f"{at}/events"))
        await wait_for(store, lambda agents: agents[0].state == "running" and bool(agents[0].session))
        for refused in (await client.delete(at), await client.post(f"{at}/pull", json={})):
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "agent_runs")
        assert (await client.post(f"{at}/stop")).status_code == 202
        await wait_for(store, all_ended)
        assert parse_stream((await following).text)[-2].data["state"] == "stopped"


async def test_a_client_reaches_nothing_outside_of_what_is_served_and_raises_no_limit(tmp_path, project):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / "link").symlink_to(elsewhere)
    refused = {
        "workspace_refused": (
            {"workspacePath": str(elsewhere)},
            {"workspacePath": str(project / "link")},
            {"repositoryUrl": f"file://{elsewhere}"},
            {"repositoryUrl": f"FILE://{project}/../../elsewhere"},
            {"repositoryUrl": f"file://{str(elsewhere).replace('e', '%65')}"},
        ),
        "repository_invalid": (
            {"repositoryUrl": f"file://localhost{elsewhere}"},
            {"repositoryUrl": f"file:{elsewhere.name}"},
            {"repositoryUrl": str(elsewhere)},
            {"repositoryUrl": "https://[x"},
            {"repositoryUrl": "ext::sh -c true"},
        ),
        "workspace_unclear": ({"repositoryUrl": "https://host/x.git", "workspacePath": str(project)},),
        "grant_missing": ({"limits": {"maxCost": 100.0}},),
        "request_invalid": ({"limits": {"maxcost": 1}}, {"model": 3}),
        "model_invalid": ({"model": "nonsense-9"},),
        "provider_unknown": ({"model": "nix/nonsense-9"},),
    }
    async with serving(project) as served, served.client(TOKENS.drive) as client, opened(open_store()) as store:
        for code, bodies in refused.items():
            for body in bodies:
                answer = await client.post(AGENTS, json={"taskDescription": "x", **body})
                assert (answer.json()["error"]["code"], body) == (code, body)
        assert await store.list_agents() == []
    async with serving(elsewhere) as served, served.client() as client:
        response = await client.post(AGENTS, json={"taskDescription": "x", "limits": {"maxCost": 100.0}})
        assert response.status_code == 201
        assert len((await client.get(AGENTS)).json()["agents"]) == 1
    async with serving(project) as served, served.client() as client:
        assert (await client.get(AGENTS)).json() == {"agents": []}
        assert (await client.get(f"{AGENTS}/{response.json()['id']}")).status_code == 404
        assert (await client.delete(f"{AGENTS}/{response.json()['id']}")).status_code == 404


async def test_a_model_that_is_named_without_its_provider_is_found_in_the_catalogue(tmp_path, project):
    async with serving(project) as served, opened(open_store()), served.client() as client:
        request = {"taskDescription": "Add user authentication", "model": "claude-4-sonnet-thinking"}
        started = (await client.post(AGENTS, json=request)).json()
    assert started["request"]["model"] == "anthropic/claude-sonnet-4"
