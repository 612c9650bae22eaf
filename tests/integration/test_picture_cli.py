"""`agent-tui image` and the line of `doctor`: pictures where there is no desktop, or where a tool is missing."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from core.cli.arguments import parse
from core.cli.image import save_picture
from core.exits import ExitCode
from tests.support.pictures import picture
from tests.support.program import environment, run
from tests.support.story import project_at

PNG = picture(640, 480)


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def assert_kept(path: Path, home: Path) -> None:
    assert path.read_bytes() == PNG
    assert path.stat().st_mode & 0o077 == 0
    assert path.is_relative_to(home)


async def test_over_ssh_a_picture_becomes_a_path_that_can_be_pasted(project, isolated):
    done = await run(project, "image", env=environment(None), stdin=PNG)
    assert done.code == ExitCode.DONE, done.err
    assert_kept(Path(done.out.strip()), isolated)
    refused = await run(project, "image", env=environment(None), stdin=b"no picture")
    assert refused.code == ExitCode.FAILED
    assert "neither a picture nor a PDF" in refused.err


def test_pictures_of_last_week_go(tmp_path):
    new = save_picture(io.BytesIO(PNG), tmp_path / "pictures")
    old = save_picture(io.BytesIO(picture(3, 3)), tmp_path / "pictures")
    os.utime(old, (1.0, 1.0))
    save_picture(io.BytesIO(PNG), tmp_path / "pictures")
    assert list((tmp_path / "pictures").iterdir()) == [new]


async def test_doctor_says_how_the_clipboard_is_read(project):
    desktop = {"DISPLAY": ":9", "WAYLAND_DISPLAY": "", "PATH": "/usr/none"}
    done = await run(project, "doctor", env=environment(None) | desktop)
    (line,) = [row for row in done.out.splitlines() if row.startswith("clipboard")]
    assert line.split(maxsplit=1)[1] == "none for x11. Install it: apt (or dnf, pacman) install xclip."


@pytest.mark.parametrize("argv", [["--image", "a.png"], ["sessions", "--image", "a.png"]])
def test_an_image_goes_with_a_prompt_only(argv, capsys):
    with pytest.raises(SystemExit):
        parse(argv)
    err = capsys.readouterr().err
    assert "works only with -p" in err or "takes no options" in err or "unrecognized arguments: --image" in err
