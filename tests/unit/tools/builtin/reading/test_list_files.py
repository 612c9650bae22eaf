from __future__ import annotations

import pytest

from core.errors import PathRefused, ToolInputInvalid
from core.tools.builtin.reading.list_files import ListDir


async def tree(files, path: str = ".", **arguments) -> str:
    return (await ListDir(relative_workspace_path=path, **arguments).run(files)).content


async def test_folders_come_first_and_pending_files_are_there(files):
    files.put("src/a.py", "")
    files.put("z.txt", "")
    files.write("src/b.py", b"")
    assert await tree(files) == "./\n├── src/\n│   ├── a.py\n│   └── b.py\n└── z.txt"


async def test_ignored_folders_are_named_and_not_opened(files):
    files.put(".gitignore", "build/\n")
    files.put("build/out.o", "")
    assert "build/ (ignored, not expanded)" in await tree(files)
    assert "out.o" not in await tree(files)


async def test_what_is_left_out_is_counted(files):
    for number in range(100):
        files.put(f"many/{number:03}.txt", "")
    assert "20 more, not shown; list many alone" in await tree(files)


async def test_a_deep_tree_ends_with_a_mark(files):
    files.put("a/b/c/d/e/f.txt", "")
    content = await tree(files)
    assert content.endswith("d/ …")
    assert "f.txt" in await tree(files, "a/b/c/d")


async def test_ignore_globs_leave_out(files):
    files.put("a.svg", "")
    files.put("a.py", "")
    assert await tree(files, ignore_globs=("*.svg",)) == "./\n└── a.py"


async def test_an_empty_folder_and_a_file(files):
    (files.folder / "empty").mkdir()
    files.put("a.txt", "")
    assert await tree(files, "empty") == "empty/\n(empty)"
    with pytest.raises(ToolInputInvalid, match="not a directory"):
        await tree(files, "a.txt")


async def test_a_folder_that_can_not_be_opened_is_not_called_empty(files, monkeypatch):
    files.put("locked/a.txt", "")
    listing = files.list_dir

    def refuse(path: str):  # as for an ordinary user; root is refused nothing
        if path == "locked":
            raise PathRefused("'locked': Permission denied.")
        return listing(path)

    monkeypatch.setattr(type(files), "list_dir", lambda _, path: refuse(path))
    assert "locked/ (no permission)" in await tree(files)
    with pytest.raises(PathRefused, match="Permission denied"):
        await tree(files, "locked")


async def test_p20_what_cursorignore_names_is_not_listed(files):
    files.put(".cursorignore", "private/\n*.pem\n")
    for name in ("private/a.txt", "key.pem", "sub/key.pem", "sub/b.txt"):
        files.put(name, "")
    assert await tree(files) == "./\n├── sub/\n│   └── b.txt\n└── .cursorignore"
    with pytest.raises(PathRefused, match="cursorignore"):
        await tree(files, "private")
