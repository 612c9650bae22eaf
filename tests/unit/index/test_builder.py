from __future__ import annotations

import os
import random
import sqlite3

import pytest

from core.index import builder as chunkers_module
from core.index.database import connect_for_reading, read_status
from core.protocol.events import IndexStatus
from tests.unit.index.index_content import build, finish, make_builder, read_content


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    for number in range(60):
        (root / f"m{number}.py").write_text(f"def work_{number}(line):\n    return line * {number}\n")
    return root


@pytest.fixture
def database(tmp_path):
    return tmp_path / "state" / "index.sqlite"


def find(database, word):
    connection = connect_for_reading(database)
    rows = connection.execute(
        "select files.path from fts join chunks on chunks.id = fts.rowid join files on files.id = chunks.file"
        " where fts match ? order by files.path",
        (f'"{word}"',),
    )
    return [path for (path,) in rows]


def test_everything_is_found_and_has_a_vector_when_it_is_done(project, database):
    builder = make_builder(project, database)
    builder.sweep()
    assert builder.status.state == "building"
    finish(builder)
    assert builder.status == IndexStatus(state="ready", files=60, indexed=60, chunks=60, embedded=60)
    assert read_status(connect_for_reading(database)) == builder.status
    assert find(database, "work_7") == ["m7.py"]


def test_what_has_a_vector_is_told_from_the_start_when_it_is_opened_again(project, database):
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    builder.close()
    again = make_builder(project, database)
    again.sweep()
    assert again.status.embedded == 60


def test_processes_build_the_same_index(project, database, tmp_path):
    assert build(project, database, chunkers=2) == build(project, tmp_path / "b" / "index.sqlite")


def test_a_file_that_ends_a_process_is_known_by_name_and_the_others_are_read(project, database, monkeypatch):
    real = chunkers_module.read_rows

    def die(top, file):
        return os._exit(9) if file.path == "m5.py" else real(top, file)

    monkeypatch.setattr(chunkers_module, "read_rows", die)
    content = build(project, database, chunkers=2)
    assert len(content["files"]) == 60
    assert {path for path, *_ in content["chunks"]} == {f"m{n}.py" for n in range(60)} - {"m5.py"}


def test_what_changed_while_nobody_looked_is_found_by_a_sweep(project, database):
    build(project, database)
    (project / "m1.py").write_text("def other():\n    pass\n")
    (project / "m2.py").unlink()
    (project / "m3.py").rename(project / "n3.py")
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    assert (find(database, "work_1"), find(database, "other")) == ([], ["m1.py"])
    assert (find(database, "work_2"), find(database, "work_3")) == ([], ["n3.py"])
    assert builder.status.files == 59


def test_nothing_is_read_again_that_has_not_changed(project, database, monkeypatch):
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    builder.close()
    monkeypatch.setattr("core.index.file_rows._RACY_NS", 0)
    again = make_builder(project, database)
    again.sweep()  # what was written a moment before it was read is read once more
    finish(again)
    monkeypatch.setattr("core.index.builder.read_rows", pytest.fail)
    again.sweep()
    assert again.status.indexed == 60


def test_a_directory_that_came_or_went_is_told_by_its_name_alone(project, database):
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    (project / "sub").mkdir()
    for number in range(5):
        (project / f"m{number}.py").rename(project / "sub" / f"m{number}.py")
    builder.update_paths(["sub", *(f"m{number}.py" for number in range(5))])
    assert find(database, "work_3") == ["sub/m3.py"]
    for path in (project / "sub").iterdir():
        path.unlink()
    (project / "sub").rmdir()
    builder.update_paths(["sub"])
    assert find(database, "work_3") == []


def test_a_changed_ignore_file_counts_at_once(project, database):
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    (project / ".gitignore").write_text("m1.py\n")
    builder.update_paths([".gitignore"])
    finish(builder)
    assert find(database, "work_1") == []


def test_vectors_of_texts_that_were_seen_are_not_made_again(project, database, monkeypatch):
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    before = {path: path.read_text() for path in project.iterdir()}
    for path in before:
        path.write_text("x = 1\n")
    builder.sweep()
    finish(builder)
    for path, text in before.items():
        path.write_text(text)
    asked = []
    monkeypatch.setattr("core.index.writer.embed_texts", lambda texts: asked.extend(texts) or [])
    builder.sweep()
    finish(builder)
    assert (asked, builder.status.embedded) == ([], 60)


def test_words_of_what_is_gone_are_swept_out(project, database, monkeypatch):
    monkeypatch.setattr("core.index.writer._MIN_DEAD", 10)
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    for number in range(30):
        (project / f"m{number}.py").write_text(f"def work_{number}(line):\n    return line - 1\n")
    builder.sweep()
    finish(builder)
    connection = sqlite3.connect(database)
    connection.execute("create virtual table temp.words using fts5vocab(main, fts, instance)")
    assert connection.execute("select count(distinct doc) from temp.words").fetchone() == (60,)
    assert connection.execute("select count(*) from vectors").fetchone() == (60,), "and so are their vectors"


def test_a_damaged_index_is_made_anew_while_it_is_used(project, database):
    builder = make_builder(project, database)
    builder.sweep()
    builder.recover(sqlite3.DatabaseError("database disk image is malformed"))
    finish(builder)
    assert "being rebuilt" in builder.status.problem
    assert find(database, "work_7") == ["m7.py"]


def test_a_full_disk_is_told_and_what_was_written_stays(project, database):
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    pages = builder._connection.execute("pragma page_count").fetchone()[0]
    builder._connection.execute(f"pragma max_page_count = {pages + 2}")
    (project / "large.py").write_text("".join(f"def large_{n}(a):\n    return a + {n}\n" * 9 for n in range(2_000)))
    with pytest.raises(sqlite3.OperationalError) as caught:
        builder.update_paths(["large.py"])
    builder.recover(caught.value)
    assert builder.status.state == "failed"
    assert "full" in builder.status.problem
    assert find(database, "work_7") == ["m7.py"]
    builder._connection.execute("pragma max_page_count = 1000000")
    builder.update_paths(["large.py"])
    finish(builder)
    assert (builder.status.state, builder.status.problem) == ("ready", "")


def test_more_files_than_it_takes_are_left_out_and_that_is_said(project, database, monkeypatch):
    monkeypatch.setattr("core.index.builder.MAX_FILES", 20)
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    assert builder.status.indexed == 21
    assert "more than 20 files" in builder.status.problem


@pytest.mark.parametrize("seed", range(3))
def test_after_any_changes_it_equals_a_fresh_one(project, database, tmp_path, seed):
    dice = random.Random(seed)
    builder = make_builder(project, database)
    builder.sweep()
    for _ in range(60):
        change(project, dice, builder)
        if dice.random() < 0.5:
            builder.step()
    finish(builder)
    builder.sweep()
    finish(builder)
    assert read_content(database) == build(project, tmp_path / "fresh" / "index.sqlite")


def change(root, dice, builder):
    paths = sorted(candidate for candidate in root.rglob("*") if candidate.is_file())
    path = dice.choice(paths)
    match dice.randrange(5):
        case 0:
            path.write_text(f"class A{dice.randrange(9)}:\n    def m(self):\n        return {dice.random()}\n")
            changed_paths = [path]
        case 1:
            path.unlink()
            changed_paths = [path]
        case 2:
            target = root / f"d{dice.randrange(4)}" / path.name
            target.parent.mkdir(exist_ok=True)
            path.rename(target)
            changed_paths = [path, target.parent]
        case 3:
            path.write_bytes(b"\xff\0binary" * dice.randrange(1, 9))
            changed_paths = [path]
        case _:
            path = root / f"new{dice.randrange(20)}.js"
            path.write_text(f"export function f{dice.randrange(9)}() {{ return 1 }}\n" * dice.randrange(1, 60))
            changed_paths = [path]
    if dice.random() < 0.7:
        builder.update_paths(str(changed_path.relative_to(root)) for changed_path in changed_paths)


def test_a_directory_that_turns_out_to_be_made_by_programs_is_forgotten(project, database):
    (project / "env" / "lib").mkdir(parents=True)
    (project / "env" / "lib" / "a.py").write_text("def made_by_pip():\n    pass\n")
    builder = make_builder(project, database)
    builder.sweep()
    finish(builder)
    assert find(database, "made_by_pip") == ["env/lib/a.py"]
    (project / "env" / "pyvenv.cfg").write_text("version = 3.11\n")
    builder.update_paths(["env/pyvenv.cfg"])
    finish(builder)
    assert find(database, "made_by_pip") == []
    builder.close()
