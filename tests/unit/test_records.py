from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from core.records import build_json_decoder, build_msgpack_decoder, convert, decode_json

# Types that no thread has used before, each by all threads at once.
AT_ONCE = """
import sys, threading
from msgspec import defstruct
from core.records import convert

sys.setswitchinterval(1e-6)
together = threading.Barrier(4)
kinds = []
for number in range(400):
    inner = defstruct("Inner", [(f"a{place}", "int | str", 0) for place in range(20)])
    kinds.append(defstruct("Outer", [(f"b{place}", list[inner], []) for place in range(5)]))

def use():
    for kind in kinds:
        together.wait()
        convert({"b0": [{"a1": 1}], "b4": [{"a19": "x"}]}, kind)

threads = [threading.Thread(target=use) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print("done")
"""


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


def test_values_are_made_of_data_and_bytes():
    assert convert({"x": 1}, Point) == decode_json(b'{"x": 1}', Point) == Point(1)
    assert convert({"x": "1"}, Point, strict=False) == Point(1)
    assert convert([Point(1, 2)], tuple[Point, ...], from_attributes=True) == (Point(1, 2),)
    assert build_json_decoder(Point).decode(b'{"x": 3}') == Point(3)
    assert build_msgpack_decoder(list[Point]).decode(msgspec.msgpack.encode([Point(4)])) == [Point(4)]
    with pytest.raises(msgspec.ValidationError):
        convert({"x": "1"}, Point)
    with pytest.raises(msgspec.DecodeError):
        decode_json(b"{", Point)


def test_threads_that_use_a_type_for_the_first_time_at_once_get_their_values():
    ended = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
