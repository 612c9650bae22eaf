"""The user's word on a server's tools: one that says something else under the same entry is held, whatever it does."""

from __future__ import annotations

from pathlib import Path

from core.mcp import consent
from core.mcp.consent import ConsentStore
from core.mcp.server_config import ServerConfig
from core.permissions.state_file import MAX_BYTES

SERVER = ServerConfig(name="small", command=("small",))


def open_store(tmp_path: Path) -> ConsentStore:
    return ConsentStore(tmp_path)


def test_i3_a_tool_that_went_away_and_came_back_with_other_words_is_held(tmp_path):
    store = open_store(tmp_path)
    assert store.record_tools(SERVER, {"a": "1", "b": "1"}, {}) == ((), ())
    assert store.record_tools(SERVER, {"b": "1"}, {}) == (("a",), ())
    assert store.record_tools(SERVER, {"a": "2", "b": "1"}, {}) == (("a",), ("a",))
    assert "a" in store.find("small").held


def test_i3_a_tool_that_went_away_with_all_others_is_held_when_it_comes_back_otherwise(tmp_path):
    store = open_store(tmp_path)
    store.record_tools(SERVER, {"a": "1"}, {})
    store.record_tools(SERVER, {}, {})
    assert store.record_tools(SERVER, {"a": "2"}, {})[1] == ("a",)


def test_i3_what_is_held_stays_so_when_it_goes_and_comes_back(tmp_path):
    store = open_store(tmp_path)
    for digests in ({"a": "1"}, {"a": "2"}, {}, {"a": "2"}):
        store.record_tools(SERVER, digests, {"a": "It said this."})
    assert store.find("small").held == {"a": "It said this."}


def test_a_tool_that_comes_back_as_it_was_is_not_held(tmp_path):
    store = open_store(tmp_path)
    for digests in ({"a": "1"}, {}, {"a": "1"}):
        assert store.record_tools(SERVER, digests, {})[1] == ()


def test_a_new_entry_begins_anew(tmp_path):
    store = open_store(tmp_path)
    store.record_tools(SERVER, {"a": "1"}, {})
    assert store.record_tools(ServerConfig(name="small", command=("other",)), {"a": "2"}, {}) == (("a",), ())
    assert store.find("small").held == {}


def test_many_long_words_of_tools_leave_the_file_one_that_can_be_read(tmp_path):
    store = open_store(tmp_path)
    names = [f"tool{number}" for number in range(1_000)]
    store.record_tools(SERVER, dict.fromkeys(names, "1"), {})
    store.record_tools(SERVER, dict.fromkeys(names, "2"), dict.fromkeys(names, "x" * 20_000))
    held = ConsentStore(tmp_path).find("small").held
    assert len(held) == 1_000
    assert sum(map(len, held.values())) <= consent.MAX_HELD_TEXT < MAX_BYTES
