from __future__ import annotations

import io
import json

import pytest

from core.transports.edit_service import FORMATS, answer, serve
from tests.edits_corpus import families, others, written
from tests.edits_corpus.case import Case

CASES = [*families.cases(), *written.cases(), *others.cases()]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_edit_is_applied_or_refused_as_written(case: Case):
    answered = answer(json.dumps(case.request()))
    if case.expected is None:
        assert answered["error"] != "internal"
        assert answered["message"]
    else:
        assert answered == {"id": case.name, "result": case.expected}


def test_the_corpus_has_every_format_and_no_name_twice():
    assert {case.format for case in CASES} == set(FORMATS)
    assert len({case.name for case in CASES}) == len(CASES) >= 400


def test_every_line_is_answered_by_one_line_in_order():
    lines = [json.dumps(case.request()) for case in CASES[:3]] + ["", "no json", "[]", '{"id": 7, "format": "x"}']
    out = io.StringIO()
    assert serve(lines, out) == 0
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer["id"] for answer in answers] == [*(case.name for case in CASES[:3]), None, None, 7]
    assert [answer.get("error") for answer in answers[3:]] == ["request_invalid", "request_invalid", "format_unknown"]
