"""What several tables allow a tool together, and which paths are in what it is kept to."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.settings import Settings, find_tool_settings, is_path_allowed, narrow_tool
from core.protocol.tools import ToolSettings
from core.records import convert

NAMES = st.sampled_from(["a", "b", "a/b", "a/b/c.py", "src", "src/x.py", "src/deep/y.py", "tests"])
SETTINGS = st.builds(
    ToolSettings,
    enabled=st.booleans(),
    scope=st.sampled_from(["workspace", "changed"]),
    allowed_paths=st.lists(NAMES, max_size=3).map(tuple),
    require_approval=st.booleans(),
)


@pytest.mark.parametrize(
    ("path", "entry", "is_in"),
    [
        ("src/app.py", "src/", True),
        ("src", "src/", True),
        ("src/app.py", "./src", True),
        ("srcs/app.py", "src/", False),
        ("src/app.py", "src/app.py", True),
        ("src/app.pyc", "src/app.py", False),
        ("src/deep/a.py", "src/*.py", True),
        ("src/deep/a.js", "src/*.py", False),
        ("anything", ".", True),
        (".", "src/deep", True),
        ("src", "src/deep", True),
        ("sr", "src/deep", False),
    ],
)
def test_a_path_is_in_what_is_allowed_or_leads_there(path, entry, is_in):
    assert is_path_allowed(path, (entry,)) is is_in


def test_a_directory_above_is_only_the_way_there():
    assert not is_path_allowed("src", ("src/deep",), with_parents=False)
    assert not is_path_allowed("src/other.py", ("src/deep",))


def test_paths_with_nothing_in_common_leave_nothing():
    both = narrow_tool(ToolSettings(allowed_paths=("src",)), ToolSettings(allowed_paths=("tests",)))
    assert not both.enabled


@given(SETTINGS, SETTINGS, NAMES)
def test_both_allow_no_more_than_each_alone(mine, theirs, path):
    both = narrow_tool(mine, theirs)
    for tool_settings in (mine, theirs):
        assert both.enabled <= tool_settings.enabled
        assert both.require_approval >= tool_settings.require_approval
        if (
            both.enabled
            and tool_settings.allowed_paths
            and is_path_allowed(path, both.allowed_paths, with_parents=False)
        ):
            assert is_path_allowed(path, tool_settings.allowed_paths, with_parents=False)


@given(SETTINGS)
def test_nothing_said_changes_nothing(mine):
    assert narrow_tool(mine, ToolSettings()) == mine
    assert find_tool_settings("x", ({"x": mine}, {}, {"y": ToolSettings(enabled=False)})) == mine


@pytest.mark.parametrize(
    ("host", "is_valid"),
    [
        ("mirror.corp.example", True),
        ("*.corp.example", True),
        ("10.0.0.7", True),
        ("fd12::7", True),
        ("*", False),
        ("10.0.0.0/8", False),
        ("Mirror.Corp.Example", False),
        ("mirror.corp.example:8080", False),
        ("", False),
    ],
)
def test_m10_private_hosts_are_names_of_hosts_and_never_everything(host, is_valid):
    settings = {"network": {"private_hosts": [host]}}
    if is_valid:
        assert convert(settings, Settings).network.is_private_host(host.replace("*", "a"))
    else:
        with pytest.raises(msgspec.ValidationError):
            convert(settings, Settings)
