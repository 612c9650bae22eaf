"""Lines of JavaScript by what Node has counted."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.proof.runs.v8_coverage import find_script_lines, read_v8_lines

TEXT = "const é = '𝄞';\nfunction f() {\n  return 1;\n}\nfunction g() {\n  if (a)\n    b();\n}\n"


def offset(part: str) -> int:
    return len(TEXT[: TEXT.index(part)].encode("utf-16-le")) // 2


def test_the_innermost_range_holds_and_characters_are_counted_as_javascript_does():
    length = len(TEXT.encode("utf-16-le")) // 2
    script, f = [(0, length, 1)], [(offset("function f"), offset("function g") - 1, 2)]
    g = [(offset("function g"), length - 1, 1), (offset("b();"), offset("b();") + 4, 0)]
    lines = find_script_lines(TEXT, [script, f, g])
    assert lines is not None
    assert lines.loaded == {1}
    assert lines.called == {2, 3, 4, 5, 6, 8}


@given(st.text(), st.integers(-3, 3))
def test_ranges_of_another_text_tell_nothing(text, more):
    length = len(text.encode("utf-16-le", "surrogatepass")) // 2
    lines = find_script_lines(text, [[(0, length + more, 1)]])
    assert (lines is None) == (more != 0)
    assert find_script_lines(text, []) is None


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_each_process_of_node_tells_of_the_file_of_tests_that_it_ran(tmp_path):
    sources = {"price.js": b"exports.f = () => {\n  return 1\n}\nexports.g = () => {\n  return 2\n}\n"}
    (tmp_path / "price.js").write_bytes(sources["price.js"])
    (tmp_path / "test").mkdir()
    for name in "fg":
        text = f"require('node:test')('{name}', () => {{ require('../price').{name}() }})\n"
        (tmp_path / "test" / f"{name}.test.js").write_text(text)
    words = ["node", "--test", *(str(path) for path in sorted(tmp_path.glob("test/*")))]
    environment = {"NODE_V8_COVERAGE": str(tmp_path / "v8"), "PATH": str(Path(str(shutil.which("node"))).parent)}
    subprocess.run(words, env=environment, check=True, capture_output=True)
    processes = [
        (process.test, process.called["price.js"], process.loaded["price.js"])
        for process in read_v8_lines(tmp_path / "v8", tmp_path, sources, lambda path: "test" in path)
        if process.called
    ]
    assert sorted(processes) == [
        ("test/f.test.js", {2, 3}, {1, 4}),
        ("test/g.test.js", {5, 6}, {1, 4}),
    ]


def test_what_was_compiled_before_it_ran_or_is_no_record_is_left_out(tmp_path):
    script = {
        "url": f"file://{tmp_path}/a.js",
        "functions": [{"ranges": [{"startOffset": 0, "endOffset": 2, "count": 1}]}],
    }
    for number, maps in enumerate(({}, {script["url"]: {}})):
        text = json.dumps({"result": [script], "source-map-cache": maps})
        (tmp_path / f"coverage-{number}.json").write_text(text)
    (tmp_path / "coverage-3.json").write_text("{")
    (tmp_path / "coverage-4.json").symlink_to("/etc/hostname")
    processes = [*read_v8_lines(tmp_path, tmp_path, {"a.js": b"f;"}, lambda _: False)]
    assert [process.loaded for process in processes] == [{"a.js": {1}}, {}, {}, {}]
    assert [process.unread for process in processes] == [set(), {"a.js"}, set(), set()]
    assert {process.test for process in processes} == {""}
