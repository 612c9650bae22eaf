"""What terminals type when a file is dropped on them."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.clipboard import is_wsl, parse_pasted_paths, resolve_existing

LETTERS = st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=("Cc", "Zl", "Zp", "Cs"))
NAMES = st.text(LETTERS, min_size=1, max_size=20).map(str.strip).filter(lambda name: name not in {"", ".", ".."})
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: f"/{'/'.join(parts)}.png")


@pytest.mark.parametrize(
    ("pasted", "found"),
    [
        ("/home/me/shot.png", ["/home/me/shot.png"]),
        ("  /home/me/shot.PNG\n", ["/home/me/shot.PNG"]),
        ("'/home/me/my shot.png' ", ["/home/me/my shot.png"]),
        ('"/home/me/my shot.png"', ["/home/me/my shot.png"]),
        ("/home/me/my\\ shot\\ \\(1\\).png", ["/home/me/my shot (1).png"]),
        ("/home/me/my shot.png", ["/home/me/my shot.png"]),
        ("file:///home/me/my%20shot.png", ["/home/me/my shot.png"]),
        ("file://localhost/a.jpg", ["/a.jpg"]),
        ("~/a.webp", ["~/a.webp"]),
        ("/a.png /b.pdf", ["/a.png", "/b.pdf"]),
        ("'/a b.png' '/c d.png'", ["/a b.png", "/c d.png"]),
        ("/a.png\n/b.png\r\n", ["/a.png", "/b.png"]),
        ("file:///a.png\nfile:///b.png", ["/a.png", "/b.png"]),
        ("/home/me/it's.png", ["/home/me/it's.png"]),
    ],
)
def test_a_dropped_file_is_known_however_its_path_is_quoted(pasted, found):
    assert list(parse_pasted_paths(pasted)) == found


@pytest.mark.parametrize(
    "pasted",
    [
        "",
        "see /home/me/shot.png",
        "/home/me/notes.txt",
        "/a.png and /b.png",
        "shot.png",
        "../shot.png",
        "https://example.org/shot.png",
        "file://server/shot.png",
        "'/a.png",
        "/a.png\nrm -rf /",
        "C:\\Users\\me\\shot.png",
        "/a.png" * 3_000,
    ],
)
def test_what_is_not_only_paths_of_pictures_is_text(pasted):
    assert parse_pasted_paths(pasted) == ()


def test_under_wsl_a_path_of_windows_lies_below_mnt():
    assert parse_pasted_paths('"C:\\Users\\me\\my shot.png"', wsl=True) == ("/mnt/c/Users/me/my shot.png",)
    assert parse_pasted_paths("D:/x.png", wsl=True) == ("/mnt/d/x.png",)
    assert is_wsl({"WSL_DISTRO_NAME": "Debian"})
    assert not is_wsl({})


@given(st.lists(PATHS, min_size=1, max_size=4, unique=True))
def test_whatever_a_file_is_called_its_quoted_path_is_found(paths):
    assert parse_pasted_paths(" ".join(map(shlex.quote, paths))) == tuple(paths)
    assert parse_pasted_paths("\n".join(f"file://{quote(path)}" for path in paths)) == tuple(paths)


@given(st.text(max_size=60))
def test_any_text_gives_absolute_paths_of_pictures_or_none(text):
    for path in parse_pasted_paths(text):
        assert path.startswith(("/", "~/"))
        assert PurePosixPath(path).suffix


def test_one_file_that_is_not_there_makes_it_text(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    there, missing = str(tmp_path / "a.png"), str(tmp_path / "b.png")
    assert resolve_existing((there,)) == (there,)
    assert resolve_existing((there, missing)) == ()
    assert resolve_existing(("/\ud800.png",)) == ()
    assert resolve_existing((str(tmp_path),)) == ()
