"""What counts as going in circles, and what is only how a model explores."""

from __future__ import annotations

import pytest

from core.protocol import events as ev
from tests.support.agent_case import Case, calls, says

MISSING = ("setup.cfg", "tox.ini", "setup.py", "pytest.ini", "Pipfile", "noxfile.py", "environment.yml", "Justfile")


def faults(case: Case) -> set[str]:
    return {event.status for event in case.of(ev.ToolFinished)}


async def test_n7a_different_missing_files_do_not_end_the_turn(tmp_path):
    looks = [calls(("read_file", {"target_file": path})) for path in MISSING]
    case = Case(tmp_path, *looks, says("None of them is there."))
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("done", len(MISSING) + 1)
    assert all("does not exist" in result for result in case.results())
    assert not any("once more" in result for result in case.results())


OUTCOMES = {
    "not found": lambda n: ("read_file", {"target_file": f"no{n}.py"}),
    "no directory": lambda n: ("list_dir", {"target_directory": f"no{n}"}),
    "refused": lambda n: ("read_file", {"target_file": f"../outside{n}.py"}),
    "text not there": lambda n: ("search_replace", {"file_path": "a.py", "old_string": f"no{n}", "new_string": "x"}),
    "two places": lambda n: ("search_replace", {"file_path": "a.py", "old_string": "x = 1\n", "new_string": f"y{n}\n"}),
    "no such job": lambda n: ("read_terminal", {"job": f"job{n}"}),
    "unread": lambda n: ("write", {"file_path": "a.py", "contents": f"{n}"}),
    "bad pattern": lambda n: ("grep", {"pattern": "(" * n}),
    "is no file": lambda n: ("delete_file", {"target_file": "./" * n + "."}),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_n7a_no_outcome_of_different_calls_ends_the_turn(tmp_path, outcome):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.py").write_text("x = 1\nz = 2\nx = 1\n")
    steps = [calls(OUTCOMES[outcome](number)) for number in range(1, 6)]
    case = Case(tmp_path, *steps, says("I see."))
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("done", 6)
    assert faults(case) <= {"failed", "denied"}


async def test_n7a_the_same_failing_call_is_told_first_however_it_is_written(tmp_path):
    ways = ['{"target_file": "no.py"}', '{ "target_file":"no.py" }', '{"target_file":  "no.py"}\n']
    case = Case(tmp_path, *[calls(("read_file", way)) for way in ways])
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("failed", 3)
    assert ["once more" in result for result in case.results()] == [False, True, False]


async def test_n7a_a_call_that_has_succeeded_since_may_fail_again_as_often(tmp_path):
    look, make = ("read_file", {"target_file": "new.py"}), ("write", {"file_path": "new.py", "contents": "x = 1\n"})
    remove = ("delete_file", {"target_file": "new.py"})
    case = Case(tmp_path, *map(calls, (look, look, make, look, remove, look, look)), says("I see."))
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("done", 8)
    assert ["once more" in result for result in case.results()] == [False, True, *[False] * 4, True]


async def test_n7a_arguments_that_are_wrong_in_different_ways_may_be_repaired_more_often(tmp_path):
    ways = ["{", '{"nope": "a.py"}', '{"target_file": 3}', '{"target_file": "a.py", "offset": "x"}']
    case = Case(tmp_path, *[calls(("read_file", way)) for way in ways], says("I give up."))
    assert (await case.turn()).reason == "done"


async def test_n7a_nothing_but_malformed_calls_ends_the_turn_and_is_told_first(tmp_path):
    ways = ["{", "[]", '{"a": 1}', '{"target_file": 3}', "null", '{"target_file": "a", "offset": []}', "7", "true"]
    case = Case(tmp_path, *[calls((name, way)) for way in ways for name in ("read_file",)])
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("failed", 6)
    assert "once more" in case.results()[-2]


async def test_v3_the_same_fault_is_told_after_the_first_repair_and_ends_the_turn_after_the_second(tmp_path):
    ways = ['{"nope": "a.py"}', '{"nope": "b.py"}', '{"nope": "c.py"}']
    case = Case(tmp_path, *[calls(("list_dir", {}), ("read_file", way)) for way in ways])
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("failed", 3)
    assert "the same mistake" in finished.message
    complaints = [result for result in case.results() if "target_file" in result]
    assert ["once more" in result for result in complaints] == [False, True, False]
