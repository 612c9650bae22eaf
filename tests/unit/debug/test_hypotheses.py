from __future__ import annotations

import pytest

from core.debug.hypotheses import check_hypotheses, find_hypothesis, record_verdict, resolve_evidence
from core.errors import ToolInputInvalid
from core.protocol.debug import Hypothesis, ProbeRecord


def supposed(count: int) -> list[Hypothesis]:
    return [Hypothesis(id=f"H{number}", statement=f"Cause {number}") for number in range(1, count + 1)]


LOGS = {"r1": [ProbeRecord(line=1, hypothesis_id="H1", message="miss", data="1")], "r2": []}


@pytest.mark.parametrize("count", [0, 1, 2, 6])
def test_three_to_five_hypotheses_are_wanted(count):
    with pytest.raises(ToolInputInvalid, match="3 to 5"):
        check_hypotheses(supposed(count))


@pytest.mark.parametrize(("name", "says"), [("H1", "x"), ("H4", "cause  1"), ("H4", " "), ("a b", "x")])
def test_hypotheses_have_to_differ_and_to_say_something(name, says):
    check_hypotheses(supposed(3))
    with pytest.raises(ToolInputInvalid):
        check_hypotheses([*supposed(3), Hypothesis(id=name, statement=says)])


def test_a_verdict_cites_lines_that_were_logged():
    evidence = resolve_evidence(["r1:1", "r1:1"], LOGS)
    assert [(citation.name, citation.text) for citation in evidence] == [("r1:1", "[H1] miss 1")]
    hypothesis = record_verdict(supposed(1)[0], "confirmed", evidence, "It missed.")
    assert (hypothesis.state, hypothesis.evidence, hypothesis.reason) == ("confirmed", evidence, "It missed.")


@pytest.mark.parametrize("name", ["r1:2", "r1:0", "r2:1", "r3:1", "r1", "line 1", "", "r1:-1"])
def test_a_line_that_was_not_logged_is_no_evidence(name):
    with pytest.raises(ToolInputInvalid):
        resolve_evidence([name], LOGS)


@pytest.mark.parametrize("verdict", ["confirmed", "rejected"])
def test_what_decides_needs_evidence(verdict):
    with pytest.raises(ToolInputInvalid, match="without a log line"):
        record_verdict(supposed(1)[0], verdict, (), "I think so.")
    assert record_verdict(supposed(1)[0], "inconclusive", (), "").state == "inconclusive"


def test_an_unknown_hypothesis_is_told_with_those_that_there_are():
    assert find_hypothesis(supposed(3), "H2").id == "H2"
    with pytest.raises(ToolInputInvalid) as refused:
        find_hypothesis(supposed(3), "H9")
    assert "H1, H2, H3" in refused.value.format_with_hint()
