"""Boxes that share a network reach each other's servers, and nothing else reaches them."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from core.sandbox.box import Tier
from tests.support.box_cases import Boxed

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.tiers.selection import make_box

URL = "http://127.0.0.1:8766/a.txt"
GET = f"python3 -c \\"import urllib.request as u; print(u.urlopen('{URL}').read())\\" 2>&1 | tail -1"

async def run(box, network, command, workspace, env):
    pieces = []
    request = BoxRequest(workspace=workspace, command=command, env=env, network=network)
    result = await (await box.start(request, pieces.append)).wait()
    return "".join(pieces).strip(), result.exit_code

async def main():
    state, workspace, env = Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4])
    box = make_box(Tier(sys.argv[1]), state)
    ports, changed = [], asyncio.Event()
    def take(listening):
        ports.append([port.port for port in listening])
        changed.set()
    network, other = await box.open_network(take), await box.open_network(lambda _: None)
    if network is None:
        print(json.dumps({"none": True}))
        return
    request = BoxRequest(workspace=workspace, command="exec python3 -m http.server 8766", env=env, network=network)
    server = await box.start(request, lambda _: None)
    async with asyncio.timeout(30):
        while not ports or ports[-1] != [8766]:
            changed.clear()
            await changed.wait()
    inside = await network.connect(8766)
    reader, writer = await asyncio.open_connection(sock=inside)
    writer.write(b"GET /a.txt HTTP/1.0\\r\\n\\r\\n")
    answers = {
        "shared": await run(box, network, GET, workspace, env),
        "own": await run(box, None, GET, workspace, env),
        "other": await run(box, other, GET, workspace, env),
        "from outside": (await reader.read()).decode()[-4:],
        "devices": await run(box, network, "tail -n +3 /proc/net/dev | cut -d: -f1", workspace, env),
        "ports": ports[-1],
    }
    writer.close()
    await server.stop()
    answers["ports at the end"] = ports[-1]
    network.close()
    other.close()
    await box.close()
    print(json.dumps(answers))

asyncio.run(main())
"""


async def test_boxes_in_one_network_reach_each_other_and_no_other_does(boxed: Boxed) -> None:
    boxed.write("work/project/a.txt", "one\n")
    words = boxed.program(PROGRAM, boxed.tier, str(boxed.state), str(boxed.workspace), json.dumps(boxed.env()))
    process = await asyncio.create_subprocess_exec(
        *words, env=boxed.program_env(), cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    answers = json.loads(output)
    if boxed.tier is Tier.LANDLOCK:
        assert answers == {"none": True}
        return
    assert answers["shared"] == ["b'one\\n'", 0]
    assert answers["from outside"] == "one\n"
    assert "refused" in answers["own"][0]
    assert "refused" in answers["other"][0]
    assert answers["devices"][0].split() == ["lo"]
    assert answers["ports"] == [8766]
    assert answers["ports at the end"] == []


async def test_a_network_that_ended_is_said_and_no_box_starts_in_it(boxed: Boxed) -> None:
    if boxed.uid != 0 or boxed.tier is Tier.LANDLOCK:
        pytest.skip("once is enough")
    network = await boxed.box().open_network(lambda _: None)
    assert network is not None
    spec = boxed.spec("true", network=network)
    network.close()
    network.close()  # as at the end of a session whose network has ended by itself
    assert not network.is_open
    running = await boxed.box().start(spec, lambda _: None)
    assert (await running.wait()).exit_code == 0
    with pytest.raises(OSError, match="closed"):
        await network.connect(80)
