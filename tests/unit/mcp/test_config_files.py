"""Files that name servers: one entry comes or goes, and every other byte stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.mcp.config_files import add_entry, change_file, remove_entry

ENTRY = {"command": "python3", "args": ["a.py"]}
TABBED = '{\r\n\t"other": [1,   2],\r\n\t"mcpServers": {\r\n\t\t"a": {"command": "x"}\r\n\t}\r\n}\r\n'


def test_a_new_file_holds_the_entry_alone():
    assert json.loads(add_entry("", "files", ENTRY)) == {"mcpServers": {"files": ENTRY}}


def test_what_stands_in_the_file_stays_byte_for_byte_and_the_entry_is_written_in_its_style():
    after = add_entry(TABBED, "b", ENTRY)
    assert after.startswith(TABBED[: TABBED.index("\r\n\t}\r\n}")])
    assert ',\r\n\t\t"b": {\r\n\t\t\t"command": "python3",\r\n' in after
    assert after.endswith("\r\n\t}\r\n}\r\n")
    assert json.loads(after)["mcpServers"]["b"] == ENTRY
    assert remove_entry(after, "b") == TABBED


@pytest.mark.parametrize(
    "before",
    [
        "{}",
        "{\n}\n",
        '{"mcpServers": {}}',
        '{"mcpServers": {"a": {"command": "x"}}}',
        '{\n  "mcpServers": {\n  }\n}',
        '{\n    "x": {"mcpServers": 1}\n}',
    ],
)
def test_an_entry_finds_its_place_in_every_shape_of_a_file(before):
    expected = json.loads(before)
    expected.setdefault("mcpServers", {})["b"] = ENTRY
    assert json.loads(add_entry(before, "b", ENTRY)) == expected


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_an_entry_is_removed_wherever_it_stands(name):
    before = json.dumps({"mcpServers": {key: {"command": key} for key in "abc"}, "z": 1}, indent=3)
    after = remove_entry(before, name)
    assert list(json.loads(after)["mcpServers"]) == [key for key in "abc" if key != name]
    assert json.loads(after)["z"] == 1


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("{", "line 1"),
        ('{"mcpServers": {"a": 1, "a": 2}}', "occurs twice"),
        ('{\n"mcpServers": []}', "has to be an object, line 2"),
        ("[]", "expected one object"),
        ("{} // mine", "expected one object"),
    ],
)
def test_a_broken_file_is_refused_with_the_place(before, reason):
    for change in (lambda: add_entry(before, "b", ENTRY), lambda: remove_entry(before, "a")):
        with pytest.raises(ConfigError, match=reason):
            change()


def test_what_makes_no_server_or_is_there_already_is_refused():
    with pytest.raises(ConfigError, match='either "command" or "url"'):
        add_entry("", "files", {})
    with pytest.raises(ConfigError, match="already"):
        add_entry(add_entry("", "files", ENTRY), "files", ENTRY)
    with pytest.raises(ConfigError, match="no server 'other'"):
        remove_entry(add_entry("", "files", ENTRY), "other")


names = st.text("abcXYZ019_.-", min_size=1, max_size=8).map(lambda text: f"n{text}")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    servers=st.dictionaries(names, json_values, max_size=4),
    others=st.dictionaries(st.text().filter(lambda key: key != "mcpServers"), json_values, max_size=3),
    indent=st.sampled_from([None, 1, 2, 4, "\t"]),
    name=names,
)
def test_what_was_added_and_removed_again_leaves_the_same_data(servers, others, indent, name):
    servers.pop(name, None)
    data = {**others, "mcpServers": servers}
    before = json.dumps(data, indent=indent)
    after = add_entry(before, name, ENTRY)
    assert json.loads(after) == {**others, "mcpServers": {**servers, name: ENTRY}}
    remainder = remove_entry(after, name)
    assert remainder == before if servers else json.loads(remainder) == data


def test_the_mode_of_a_file_stays_and_a_new_one_of_the_users_is_theirs_alone(tmp_path):
    theirs, own = tmp_path / ".mcp.json", tmp_path / "config" / "mcp.json"
    theirs.write_text("{}")
    theirs.chmod(0o640)
    change_file(theirs, "a", ENTRY, is_shared=True)
    change_file(own, "a", ENTRY, is_shared=False)
    assert [place.stat().st_mode & 0o777 for place in (theirs, own)] == [0o640, 0o600]
    assert [json.loads(place.read_text())["mcpServers"]["a"] for place in (theirs, own)] == [ENTRY, ENTRY]


def test_a_link_in_the_project_is_left_alone_and_a_bad_name_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("{}")
    (tmp_path / ".mcp.json").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="is a link"):
        change_file(tmp_path / ".mcp.json", "a", ENTRY, is_shared=True)
    with pytest.raises(ConfigError, match="name of a server"):
        change_file(elsewhere, "a b", ENTRY, is_shared=False)
    assert elsewhere.read_text() == "{}"
