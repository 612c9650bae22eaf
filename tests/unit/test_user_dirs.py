from __future__ import annotations

import pytest

from core.errors import PathRefused
from core.user_dirs import refuse_wide_root


@pytest.mark.parametrize("above", [0, 1, 2])
def test_the_home_directory_and_what_holds_it_are_no_project(isolated, tmp_path, above):
    home = isolated.resolve()
    root = (home, *home.parents)[above]
    with pytest.raises(PathRefused, match="home directory, not a project" if above else "your home directory"):
        refuse_wide_root(root, root, tmp_path / "state", tmp_path / "config")
    (home / "project").mkdir()
    refuse_wide_root(home / "project", home / "project", tmp_path / "state", tmp_path / "config")
