from __future__ import annotations

import json
import os
import tempfile

import pytest

from core.errors import ToolInputInvalid
from core.tools.builtin.reading.grep import Grep
from core.tools.builtin.reading.list_files import GlobFileSearch
from core.tools.builtin.reading.read_file import ReadFile


async def grep(files, pattern: str, **arguments) -> str:
    return (await Grep(pattern=pattern, **arguments).run(files)).content


async def glob(files, pattern: str, **arguments) -> list[str]:
    outcome = await GlobFileSearch(glob_pattern=pattern, **arguments).run(files)
    return outcome.content.splitlines()[1:]


async def test_matches_are_grouped_by_file_with_line_numbers(files):
    files.put("a.py", "x\nfoo = 1\n")
    files.put("b/c.py", "foo\n")
    assert await grep(files, "foo") == "2 matches in 2 files\n\na.py\n2:foo = 1\n\nb/c.py\n1:foo"


async def test_context_lines_are_told_from_matches(files):
    files.put("a.txt", "1\n2\nhit\n4\n5\n\n\n\nhit\n")
    content = await grep(files, "hit", context=1)
    assert content.endswith("a.txt\n2-2\n3:hit\n4-4\n--\n8-\n9:hit")


async def test_the_pending_state_is_searched_and_not_the_one_on_disk(files):
    files.put("edited.py", "needle old\n")
    files.put("gone.py", "needle gone\n")
    files.write("edited.py", b"needle new\n")
    files.write("made/fresh.py", b"needle fresh\n")
    files.delete("gone.py")
    content = await grep(files, "needle")
    assert "needle new" in content
    assert "made/fresh.py" in content
    assert "old" not in content
    assert "gone" not in content


async def test_a_pending_folder_can_be_searched_alone(files):
    files.write("made/fresh.py", b"needle\n")
    assert "made/fresh.py" in await grep(files, "needle", path="made")


async def test_ignored_files_stay_out_also_with_an_include_pattern(files):
    files.put(".gitignore", "secret.py\nbuild/\n")
    files.put("secret.py", "needle\n")
    files.put("build/out.py", "needle\n")
    files.put("src/a.py", "needle\n")
    for include in ("", "*.py", "**/*.py"):
        content = await grep(files, "needle", include_pattern=include)
        assert content == "1 match in 1 file\n\nsrc/a.py\n1:needle"


async def test_p20_what_cursorignore_names_is_not_even_named(files):
    files.put("sub/.cursorignore", "hidden.txt\n")
    files.put("sub/hidden.txt", "needle\n")
    assert await grep(files, "needle") == "No matches for needle"
    assert await glob(files, "hidden.txt") == []


async def test_include_exclude_and_case(files):
    files.put("src/a.ts", "Needle\n")
    files.put("src/a.test.ts", "needle\n")
    files.put("lib/a.ts", "needle\n")
    content = await grep(
        files, "NEEDLE", case_sensitive=False, include_pattern="src/**/*.ts", exclude_pattern="*.test.*"
    )
    assert content == "1 match in 1 file\n\nsrc/a.ts\n1:Needle"
    assert await grep(files, "NEEDLE") == "No matches for NEEDLE"


async def test_at_most_fifty_matches_are_shown_and_all_are_counted(files):
    files.put("a.txt", "hit\n" * 120)
    content = await grep(files, "hit")
    assert content.count(":hit") == 50
    assert content.startswith("120 matches in 1 file, the first 50 shown")


async def test_a_bad_pattern_is_answered_in_ripgreps_words(files):
    with pytest.raises(ToolInputInvalid, match="unclosed group"):
        await grep(files, "foo(")


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(files):
    files.put("a.txt", "--pre=evil\n")
    assert "1:--pre=evil" in await grep(files, "--pre=evil")


async def test_a_configuration_of_ripgrep_is_not_read(files, monkeypatch):
    config = files.put("rc", "--pre=false\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    files.put("a.txt", "hit\n")
    assert "1:hit" in await grep(files, "hit")


async def test_p10_names_with_newlines_and_dashes_are_found(files):
    files.put("-v", "hit\n")
    files.put("a\nb", "hit\n")
    content = await grep(files, "hit")
    assert content.startswith("2 matches in 2 files")
    (files.folder / os.fsdecode(b"bad\xff.txt")).write_text("hit\n")
    assert (await grep(files, "hit")).startswith("3 matches in 3 files")


async def test_a_very_long_line_is_clipped(files):
    files.put("a.txt", "hit" + "x" * 5_000_000 + "\n")
    assert len(await grep(files, "hit")) < 1000


async def test_a_missing_path_is_an_error(files):
    with pytest.raises(ToolInputInvalid, match="does not exist"):
        await grep(files, "x", path="nowhere")


async def test_files_are_found_at_any_depth_latest_first(files):
    old, new = files.put("a/old.py", ""), files.put("new.py", "")
    files.put("a/b.txt", "")
    os.utime(old, (1, 1))
    os.utime(new, (2, 2))
    assert await glob(files, "*.py") == ["new.py", "a/old.py"]
    assert await glob(files, "a/*.py") == ["a/old.py"]
    assert await glob(files, "*.{py,txt}", target_directory="a") == ["a/b.txt", "a/old.py"]


async def test_pending_files_come_first_and_deleted_ones_not_at_all(files):
    files.put("a.py", "")
    files.put("b.py", "")
    files.write("z.py", b"")
    files.delete("b.py")
    assert await glob(files, "*.py") == ["z.py", "a.py"]


async def test_ignored_files_are_not_found_by_name(files):
    files.put(".gitignore", "*.log\n")
    files.put("a.log", "")
    assert (await GlobFileSearch(glob_pattern="*.log").run(files)).summary == "no files"


async def test_more_than_a_hundred_files_are_counted(files):
    for number in range(130):
        files.put(f"f{number}.txt", "")
    outcome = await GlobFileSearch(glob_pattern="*.txt").run(files)
    assert outcome.summary == "130 files"
    assert len(outcome.content.splitlines()) == 101


async def test_r7_a_glob_that_could_take_forever_is_refused(files):
    with pytest.raises(ToolInputInvalid, match="too many wildcards"):
        await glob(files, "*a*a*a*a*a*a*b")


@pytest.mark.parametrize("is_part", [True, False])
async def test_rules_above_the_workspace_count_if_it_is_part_of_a_repository(files, is_part):
    top = files.folder.parent
    (top / ".gitignore").write_text("build/\n")
    files.put("build/a.py", "needle\n")
    files.put("src/b.py", "needle\n")
    if is_part:
        for name in ("objects", "refs"):
            (top / ".git" / name).mkdir(parents=True)
        (top / ".git" / "HEAD").write_text("ref: refs/heads/trunk\n")
    expected_paths = ["src/b.py"] if is_part else ["build/a.py", "src/b.py"]
    assert sorted(await glob(files, "*.py")) == expected_paths
    assert [line for line in (await grep(files, "needle")).splitlines() if line.endswith(".py")] == expected_paths
    (top / ".gitignore").write_text("/project/\n")  # as a whole: who works there wants to see it
    assert len(await glob(files, "*.py")) == 2


async def test_what_is_not_shown_is_not_counted(files):
    files.put(".cursorignore", "hidden*\n")
    for name in ("hidden1.txt", "hidden2.txt", "a.txt"):
        files.put(name, "")
    assert (await GlobFileSearch(glob_pattern="*.txt").run(files)).content == "1 file\na.txt"


def build_notebook(*cells: tuple[str, str], output: str = "") -> str:
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    return json.dumps(
        {
            "cells": [
                {"cell_type": kind, "metadata": {}, "source": source}
                | ({"outputs": outputs, "execution_count": None} if kind == "code" else {})
                for kind, source in cells
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 4,
        }
    )


async def test_a_notebook_is_searched_as_the_cells_that_read_file_shows(files):
    cells = ("markdown", "# needles"), ("code", 'print("needle")\nprint("needle", 2)')
    files.put("a.ipynb", build_notebook(*cells, output="needle in what was put out\n"))
    files.put("b.txt", "needle\n")
    content = await grep(files, "needle")
    assert content == (
        "4 matches in 2 files\n\na.ipynb\n2-# %% cell 0 · markdown\n3:# # needles\n4-# %% cell 1 · code\n"
        '5:print("needle")\n6:print("needle", 2)\n\nb.txt\n1:needle'
    )
    read = (await ReadFile(target_file="a.ipynb", offset=5, limit=1).run(files)).content
    assert 'print("needle")' in read
    assert "put out" not in await grep(files, "needle", path="a.ipynb", context=20)


async def test_a_pattern_means_the_source_of_a_cell_and_not_its_json(files):
    files.put("deep/a.ipynb", build_notebook(("code", 'x = "a"\n\ty()')))
    assert '3:x = "a"' in await grep(files, '^x = "a"$', include_pattern="*.ipynb")
    assert "4:\ty()" in await grep(files, r"^\ty\(\)$", path="deep")
    for nothing in ("cell_type", "nbformat"):
        assert "No matches" in await grep(files, nothing)
    assert "No matches" in await grep(files, "^x", include_pattern="*.py")
    assert "No matches" in await grep(files, "^x", file_type="py")


async def test_a_pending_notebook_is_searched_as_its_cells_too(files):
    files.put("a.ipynb", build_notebook(("code", "old = 1")))
    files.write("a.ipynb", build_notebook(("code", 'new = "1"')).encode())
    assert "No matches" in await grep(files, "^old")
    assert '3:new = "1"' in await grep(files, '^new = "')


async def test_a_notebook_that_is_not_valid_is_searched_as_it_stands(files):
    files.put("a.ipynb", '{"nbformat": 4, "cells": [\n"needle"\n')
    assert (await grep(files, "needle")).endswith('a.ipynb\n2:"needle"')


async def test_ignored_notebooks_and_those_kept_from_the_agent_stay_out(files):
    files.put(".gitignore", "out/\n")
    files.put("out/a.ipynb", build_notebook(("code", "needle")))
    files.put("b.ipynb", build_notebook(("code", "needle")))
    assert (await grep(files, "needle", output_mode="files_with_matches")).splitlines()[1:] == ["b.ipynb"]


async def test_a_project_without_notebooks_is_searched_without_copies(files, monkeypatch):
    files.put("a.py", "needle\n")
    monkeypatch.setattr(tempfile, "TemporaryDirectory", None)
    assert "a.py" in await grep(files, "needle")


@pytest.mark.parametrize("path", ["pipe", "linked"])
async def test_n37_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(files, path):
    os.mkfifo(files.folder / "pipe")
    (files.folder / "linked").symlink_to("pipe")
    with pytest.raises(ToolInputInvalid, match="is a pipe or a device"):
        await grep(files, "one", path=path)


async def test_a_file_in_another_encoding_is_searched_and_shown_as_its_text(files):
    files.put("g.ini", "名称=测试\n端口=80\n".encode("gbk"))
    files.put("u.ini", "名称=测试\n".encode())
    outcome = await Grep(pattern="=80").run(files)
    assert "端口=80" in outcome.content
    second_outcome = await Grep(pattern="测试").run(files)
    assert second_outcome.content.count("名称=测试") == 2
    assert "g.ini" in (await Grep(pattern=r"^\w+=80").run(files)).content


async def test_a_name_without_a_file_finds_paths_with_its_letters_the_best_first(files):
    for path in ("src/f0.py", "deep/f01_test.py", "src/af0b.py", "f/00/x.py", "src/main.py", "folder/b0.txt"):
        files.put(path, "")
    content = (await GlobFileSearch(glob_pattern="F0").run(files)).content
    assert content.splitlines() == [
        "No file is named F0. Paths with its letters, the best first:",
        "src/f0.py",
        "deep/f01_test.py",
        "src/af0b.py",
        "f/00/x.py",
        "folder/b0.txt",
    ]


async def test_at_most_ten_similar_paths_are_shown_and_a_pattern_stays_exact(files):
    for number in range(30):
        files.put(f"note{number}.md", "")
    assert len((await GlobFileSearch(glob_pattern="nte").run(files)).content.splitlines()) == 11
    assert (await GlobFileSearch(glob_pattern="nte*").run(files)).content.startswith("No file matches nte*.")
    assert (await GlobFileSearch(glob_pattern="zq").run(files)).content.startswith("No file matches zq.")
