"""A layer that is taken in while its process goes on: whatever that did, everybody sees what it sees."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.protocol.review import Origin
from core.shadow.layers.layer_delta import LiveLayer
from tests.unit.shadow.overlay_mount import MOUNT, needs_mounts, output
from tests.unit.shadow.review_case import ReviewCase

LOOK = r"""
find . \( -type f -printf '%p %m ' -exec sh -c 'cksum < "$0"' {} \; -o -type l -printf '%p to %l\n' \) | sort
"""
NAMES = ("a.txt", "dir/b.txt", "dir/c.txt", "new/d.txt", "new/deep/e.txt", "dir")
FILES = st.sampled_from(NAMES[:5])
STEPS = st.one_of(
    st.builds("mkdir -p $(dirname {0}) && echo {1} > {0}".format, FILES, st.integers(0, 9)),
    st.builds("test -d $(dirname {0}) && echo {1} >> {0}".format, FILES, st.integers(0, 9)),
    st.builds("rm -rf {}".format, st.sampled_from((*NAMES, "new", "new/deep"))),
    st.builds("rm -rf {0} && mkdir {0}".format, st.sampled_from(("dir", "new"))),
    st.builds("mv -T {} {}".format, st.sampled_from(NAMES), FILES),
    st.builds("chmod {} {}".format, st.sampled_from(("600", "755")), FILES),
    st.builds("ln -sfn {} {}".format, st.sampled_from(("a.txt", "gone")), FILES),
)


class Living:
    """A process over an overlay of the project, whose layer is taken in as often as one likes."""

    def __init__(self, review: ReviewCase, home: Path) -> None:
        self.review = review
        self.upper = home / "upper"
        self.upper.mkdir(parents=True)
        (home / "work").mkdir()
        lowers = ":".join(map(str, (*review.shadow.prepare_lowers(), review.root)))
        places = map(str, (self.upper, home / "work", review.root))
        self.process = subprocess.Popen(
            ["unshare", "-Urm", "sh", "-c", MOUNT, "sh", lowers, *places, "exec sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.started, self.pending = time.time_ns(), review.shadow.list_visible_states()
        self.live = LiveLayer(self.upper)

    def run(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{{ {command}\n}} 2>/dev/null; echo; echo over\n")
        self.process.stdin.flush()
        lines = iter(self.process.stdout.readline, "over\n")
        return "".join(lines).strip()

    def capture_changes(self) -> None:
        layer = self.review.shadow.open_layer()
        if not self.live.copy_changes(layer.upper):
            self.review.shadow.drop_layer(layer)
            return
        origin = Origin(call="c1", tool="mcp__live")
        self.review.shadow.absorb(replace(layer, pending_states=self.pending), origin=origin, started_ns=self.started)
        self.pending = self.review.shadow.list_visible_states()


@contextmanager
def living(place: Path) -> Iterator[Living]:
    review = ReviewCase(place)
    (review.root / "dir").mkdir()
    for name in NAMES[:3]:
        (review.root / name).write_text(f"{name}\n")
    process = Living(review, place / "live")
    try:
        yield process
    finally:
        process.process.kill()
        process.process.communicate()


def check(process: Living, batches: list[list[str]]) -> None:
    for steps in batches:
        for step in steps:
            process.run(step)
        process.capture_changes()
        assert output(process.review, LOOK).strip() == process.run(LOOK)


@needs_mounts
@pytest.mark.parametrize(
    "batches",
    [
        [["echo 1 > new.txt"], ["echo 2 >> new.txt"], ["rm new.txt"], []],
        [["mkdir new && echo 1 > new/d.txt"], ["rm -rf new"], ["mkdir new && echo 2 > new/e.txt"]],
        [["rm -rf dir && mkdir dir && echo 1 > dir/x"], ["echo 2 > dir/y"], ["rm -rf dir"], ["echo 3 > dir"]],
        [["rm a.txt"], ["echo back > a.txt"], ["rm a.txt"]],
        [["mv -T dir/b.txt moved.txt"], ["mv -T moved.txt dir/b.txt"]],
        [["echo 1 > dir/n.txt; chmod 700 dir"], ["chmod 755 dir; rm dir/n.txt"]],
        [["echo secret > n.txt; chmod 000 n.txt"], ["chmod 600 n.txt"]],
        [["mkfifo pipe; echo 1 > n.txt"], ["rm pipe n.txt"]],
        [["ln -s a.txt link"], ["ln -sfn gone link"], ["rm link; echo 1 > link"]],
        [["mkdir -p new/deep && echo 1 > new/deep/e.txt"], ["rm -rf new && mkdir new"], ["echo 1 > new/f"]],
        [["echo one > n.txt"], ["printf two > n.txt; touch -d @0 n.txt"]],
    ],
)
def test_what_a_process_did_since_the_last_time_is_taken_in_while_it_goes_on(tmp_path, batches):
    with living(tmp_path) as process:
        check(process, batches)


@needs_mounts
@settings(max_examples=25)
@given(batches=st.lists(st.lists(STEPS, max_size=4), min_size=2, max_size=4))
def test_whatever_a_process_does_between_two_times_everybody_sees_what_it_sees(tmp_path_factory, batches):
    with living(tmp_path_factory.mktemp("live")) as process:
        check(process, batches)


@needs_mounts
def test_what_is_taken_in_is_a_copy_that_no_later_write_reaches_and_nothing_new_is_no_news(tmp_path):
    with living(tmp_path) as process:
        process.run("exec 3> n.txt; echo one >&3")
        process.capture_changes()
        process.run("echo two >&3")
        assert output(process.review, "cat n.txt") == "one\n"
        process.capture_changes()
        assert output(process.review, "cat n.txt") == "one\ntwo\n"
        empty = tmp_path / "empty"
        empty.mkdir()
        assert not process.live.copy_changes(empty)
        assert not [*empty.iterdir()]
