"""Real build tools over what was rejected, in every tier: nothing counts as built that was made from rejected text."""

from __future__ import annotations

import os
import time

from core.protocol.review import Origin
from core.shadow.content.blob_store import BlobStore
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from core.workspace import Workspace
from tests.support.box_cases import Boxed, Ran

OLD = 1_000_000_000  # seconds since 1970
FILES = {
    ".gitignore": "build/\n",
    "Makefile": "build/app: a.c b.c\n\tmkdir -p build && cc -o build/app a.c b.c\n",
    "a.c": "int b(void);\nint main(void) { return b(); }\n",
    "b.c": "int b(void) { return 7; }\n",
}
BUILD = "make -s && build/app; echo $?"


def open_shadow(boxed: Boxed) -> Shadow:
    session = boxed.state / "session"
    session.mkdir(parents=True)
    state = ReviewState()
    return Shadow(Workspace(boxed.workspace, state_dir=boxed.state), BlobStore(session / "blobs"), state.apply, state)


async def run(boxed: Boxed, shadow: Shadow, command: str) -> Ran:
    """Run a command over what the agent sees, and take its effects in."""
    lowers = shadow.prepare_lowers()
    await shadow.dates.wait()
    started = time.time_ns()
    for path in (boxed.state, *boxed.state.rglob("*")):
        os.chown(path, boxed.uid, boxed.uid, follow_symlinks=False)
    ran = await boxed.run(command, lowers=lowers)
    assert ran.upper is not None
    layer = shadow.open_layer()
    layer.upper.rmdir()
    ran.upper.rename(layer.upper)
    shadow.absorb(layer, origin=Origin(call="c1", tool="run_terminal_cmd", command=command), started_ns=started)
    return ran


async def test_n28_make_builds_anew_what_was_built_from_rejected_text(boxed):
    for name, text in FILES.items():
        os.utime(boxed.write(f"work/project/{name}", text), (OLD, OLD))
    shadow = open_shadow(boxed)
    assert (await run(boxed, shadow, BUILD)).output.split() == ["7"]
    shadow.write("b.c", b"int b(void) { return 8; }\n")
    assert (await run(boxed, shadow, BUILD)).output.split() == ["8"]
    shadow.resolve("b.c", (), "reject")
    assert (await run(boxed, shadow, BUILD)).output.split() == ["7"]
    assert shadow.list_changes() == ()
    assert (boxed.workspace / "b.c").stat().st_mtime == OLD


async def test_n29_the_users_newer_state_of_an_ignored_directory_is_what_every_tier_shows(boxed):
    boxed.write("work/project/.gitignore", "deps/\n")
    boxed.write("work/project/deps/index", "v0\n")
    shadow = open_shadow(boxed)
    await run(boxed, shadow, "echo v1 > deps/index; echo v1 > deps/util")
    assert (await run(boxed, shadow, "cat deps/*")).output.split() == ["v1", "v1"]
    for name in ("index", "util", "extra"):
        boxed.write(f"work/project/deps/{name}", "v2\n")
    assert (await run(boxed, shadow, "cat deps/*")).output.split() == ["v2", "v2", "v2"]
