"""Commands over a review's project with a real overlay mount, as a box would run them; without its other walls."""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import pytest

from core.protocol.events import EffectsRecorded
from core.protocol.review import Origin
from tests.unit.shadow.review_case import ReviewCase

MOUNT = 'mount -t overlay -o "lowerdir=$1,upperdir=$2,workdir=$3,userxattr" overlay "$4" && cd "$4" && exec sh -ec "$5"'


@cache
def mounts_work() -> bool:
    """Whether this machine lets us mount an overlay in namespaces of our own."""
    if shutil.which("unshare") is None:
        return False
    result = subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True)
    return result.returncode == 0


needs_mounts = pytest.mark.skipif("not __import__('tests.unit.shadow.overlay_mount', fromlist=['x']).mounts_work()")


def run_in(lowers: tuple[Path, ...], upper: Path, work: Path, root: Path, command: str) -> str:
    """The command's output; an exit code other than 0 is an error."""
    lower = ":".join(str(path) for path in (*lowers, root))
    arguments = ["unshare", "-Urm", "sh", "-c", MOUNT, "sh", lower, str(upper), str(work), str(root), command]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def run(review: ReviewCase, command: str, call: str = "c1") -> EffectsRecorded:
    """Run a command over what the agent sees, and take its effects in."""
    layer = review.shadow.open_layer()
    started = time.time_ns()
    run_in(review.shadow.prepare_lowers(), layer.upper, layer.work, review.root, command)
    origin = Origin(call=call, tool="run_terminal_cmd", command=command)
    return review.shadow.absorb(layer, origin=origin, started_ns=started)


def output(review: ReviewCase, command: str) -> str:
    """What a command says that changes nothing."""
    layer = review.shadow.open_layer()
    try:
        return run_in(review.shadow.prepare_lowers(), layer.upper, layer.work, review.root, command)
    finally:
        review.shadow.drop_layer(layer)
