"""What servers say is read leniently, within bounds, and what can't be read is an error of the server's."""

from __future__ import annotations

import msgspec
import pytest

from core.errors import ToolFailed
from core.lsp.client import LspClient, build_frame
from core.lsp.messages import parse_hover, parse_locations, parse_workspace_edit

DEEP = b"[" * 100_000 + b"]" * 100_000
BROKEN = [b'"\xff"', b'{"contents": "\\ud800"}', DEEP]


@pytest.mark.parametrize("raw", BROKEN)
@pytest.mark.parametrize("parse", [parse_hover, parse_locations, parse_workspace_edit])
def test_an_answer_that_is_none_is_refused_with_a_word(parse, raw):
    with pytest.raises(ToolFailed, match="can't be read"):
        parse(msgspec.Raw(raw))


@pytest.mark.parametrize("raw", BROKEN)
def test_a_message_that_is_none_is_passed_over_and_the_next_one_heard(raw):
    heard = []
    client = LspClient(lambda _: None, lambda method, _: heard.append(method), {})
    asked = b'{"id": 1, "method": "workspace/configuration", "params": %b}' % raw
    client.feed(build_frame(asked) + build_frame(b'{"method": "x", "params": {"a": %b}}' % raw))
    client.feed(build_frame(b'{"method": "last"}'))
    assert (heard[-1], client.problem) == ("last", "")


def test_what_is_said_without_end_is_cut():
    assert len(parse_hover(msgspec.Raw(msgspec.json.encode({"contents": ["long " * 9_000] * 9})))) == 20_000
    place = {"uri": "file:///" + "x" * 10_000, "range": {}}
    assert parse_locations(msgspec.Raw(msgspec.json.encode([place]))) == []
