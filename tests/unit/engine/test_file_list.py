"""The names of a project's files, also those that are no Unicode, with ripgrep and without."""

from __future__ import annotations

import os

import pytest

from core.engine.file_list import FileList
from core.errors import ToolFailed
from core.workspace import Workspace


@pytest.mark.parametrize("has_ripgrep", [True, False])
async def test_a_name_that_is_no_unicode_is_one_that_can_be_read_by_it(tmp_path, monkeypatch, has_ripgrep):
    def refuse():
        raise ToolFailed("there is none")

    if not has_ripgrep:
        monkeypatch.setattr("core.engine.file_list.find_program", refuse)
    (tmp_path / "below").mkdir()
    descriptor = os.open(os.fsencode(tmp_path) + b"/below/caf\xe9.py", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"x = 1\n")
    os.close(descriptor)
    (found,) = await FileList(tmp_path).find("caf", limit=5, directories=False, extra=())
    assert Workspace(tmp_path).read_bytes(found, 100) == b"x = 1\n"
    assert found.encode()
