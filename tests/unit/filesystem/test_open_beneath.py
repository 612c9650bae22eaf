"""Nothing is opened outside of a tree, by either way of opening, and a link out of it is none of its paths."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.filesystem.open_beneath import DIRECTORY, open_beneath, open_by_walking, resolve_links


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    """The project's directory, open; beside it lies one whose name begins with the project's."""
    (tmp_path / "project/below").mkdir(parents=True)
    (tmp_path / "project-of-others").mkdir()
    (tmp_path / "project-of-others/key").write_bytes(b"secret")
    descriptor = os.open(tmp_path / "project", DIRECTORY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("opener", [open_beneath, open_by_walking])
@pytest.mark.parametrize("path", [b"..", b"./..", b"below/../..", b"../project", b"below/../../project-of-others/key"])
def test_p1_a_path_out_of_the_tree_is_not_opened_wherever_the_dots_stand(top, opener, path):
    with pytest.raises(OSError, match=os.strerror(errno.EXDEV)):
        opener(top, path, os.O_RDONLY)


@pytest.mark.parametrize("target", ["../project-of-others/key", "{beside}/key", "{beside}"])
def test_p2_a_link_into_a_directory_whose_name_only_begins_like_the_project_s_leads_out_of_it(tmp_path, top, target):
    beside = tmp_path / "project-of-others"
    (tmp_path / "project/link").symlink_to(target.format(beside=beside))
    with pytest.raises(OSError, match=os.strerror(errno.EXDEV)):
        resolve_links(top, os.fsencode(tmp_path / "project"), b"link")


@pytest.mark.parametrize("target", ["{project}/below", "below", "{project}"])
def test_a_link_that_stays_in_the_project_is_followed(tmp_path, top, target):
    project = tmp_path / "project"
    (project / "link").symlink_to(target.format(project=project))
    resolved_path = resolve_links(top, os.fsencode(project), b"link")
    assert resolved_path == (b"below" if "below" in target else b"")
