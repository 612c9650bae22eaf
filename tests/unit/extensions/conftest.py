"""A project and a home with extension files."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.extensions.extension_files import list_extension_folders
from core.user_dirs import get_config_dir
from core.workspace import Workspace


class Places:
    """A project, the user's home and their configuration directory, which files are written to."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.project.mkdir()
        self.home, self.config = Path.home(), get_config_dir()

    def write(self, files: dict[str, str], root: Path | None = None) -> None:
        for name, text in files.items():
            path = (root or self.project) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.project)

    def folders(self, is_trusted=lambda *_: True):
        return list_extension_folders(self.workspace, is_trusted)


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path)
