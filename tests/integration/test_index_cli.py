from __future__ import annotations

import io
import json
import os
import sqlite3

import pytest

from core.cli.arguments import parse
from core.cli.index import IndexArguments, run
from core.errors import PathRefused
from core.index.database import FILE_NAME, IndexFailed, lock_for_building
from core.sessions.store import SessionStore
from tests.unit.index.index_content import break_table


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "prices.py").write_text("def round_price(amount):\n    return round(amount, 2)\n")
    (root / "src" / "mail.py").write_text("def send_receipt(address):\n    connect(address)\n")
    return root


def do(*words):
    arguments = parse(["index", *map(str, words)])
    assert isinstance(arguments, IndexArguments)
    return run(arguments)


def database(project):
    return SessionStore(project).path / FILE_NAME


def test_a_search_builds_the_index_first_and_says_so(project, capsys):
    do("search", "where is a price rounded", "--json", project)
    output = capsys.readouterr()
    first, *_ = json.loads(output.out)
    assert (first["path"], first["start"], first["end"], first["symbol"]) == ("src/prices.py", 1, 2, "round_price")
    assert first["score"] > 0
    assert "building it first" in output.err


def test_a_search_finds_what_was_changed_since(project, capsys):
    do("build", project)
    (project / "src" / "mail.py").write_text("def post_letter(address):\n    pass\n")
    capsys.readouterr()
    do("search", "post_letter", "--limit", 1, project)
    output = capsys.readouterr()
    assert (output.out, output.err) == ("src/mail.py:1-2  post_letter\n", "")


def test_a_question_can_come_from_standard_input(project, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Receipts are not sent\n\nsend_receipt fails\n")))
    do("search", "-", "--json", project)
    assert json.loads(capsys.readouterr().out)[0]["path"] == "src/mail.py"


def test_the_status_names_the_models_that_were_asked_beside_the_own_one(project, capsys):
    do("build", project)
    connection = sqlite3.connect(database(project))
    connection.execute(
        "insert into vectors select 'local/minilm', text_hash, vec from vectors where model = 'words256' limit 1"
    )
    connection.execute("insert into vectors values('local/minilm', x'00', x'00')")
    connection.commit()
    capsys.readouterr()
    do(project)
    assert "\nlocal/minilm: 1 of these chunks\n" in capsys.readouterr().out


def test_the_status_tells_how_far_it_is(project, capsys):
    do(project)
    assert "no index yet" in capsys.readouterr().out
    do("build", project)
    assert "ready: 2 of 2 files, 2 chunks, 2 with a vector" in capsys.readouterr().out
    do("status", "--json", project)
    assert json.loads(capsys.readouterr().out)["indexed"] == 2


def test_a_damaged_index_is_made_anew_and_that_is_said(project, capsys):
    do("build", project)
    database(project).write_bytes(b"nothing of the kind" * 999)
    capsys.readouterr()
    do("build", project)
    assert "being rebuilt" in capsys.readouterr().out


def test_damage_that_only_a_search_notices_is_mended_by_it_and_that_is_said(project, capsys):
    do("build", project)
    break_table(database(project), "fts_docsize")
    capsys.readouterr()
    do("search", "where is a price rounded", "--limit", 1, project)
    output = capsys.readouterr()
    assert output.out == "src/prices.py:1-2  round_price\n"
    assert "being rebuilt" in output.err


def test_an_index_that_is_cleared_is_gone_unless_a_session_keeps_it(project, capsys):
    do("build", project)
    lock = lock_for_building(database(project))
    with pytest.raises(IndexFailed, match="a session"):
        do("clear", project)
    os.close(lock)
    do("clear", project)
    assert not database(project).exists()
    assert "removed" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["search"], ["search", " "], ["--limit", "3"], ["build", "--json"], ["a", "b"]])
def test_wrong_words_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parse(["index", *words])
    assert "See agent-tui index --help" in capsys.readouterr().err


def test_a_directory_that_is_no_project_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(PathRefused, match="home"):
        do("build", tmp_path)
