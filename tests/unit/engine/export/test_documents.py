from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.engine.export.documents import export_session, write_export
from core.engine.export.record import parse_json, read_export
from core.errors import StateError
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.review import Change, Check, FileState, Hunk, VerdictRecord
from core.sessions.record_format import encode_record
from core.shadow.content.blob_store import BlobStore

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>"
KEY = "sk-" + "a1b2c3d4" * 4
OLD, NEW = b"one\ntwo\nthree\n", b"one\nTWO\nthree\nfour <b>\n"
HUNKS = (
    Hunk(id="a", old_start=2, old_lines=1, new_start=2, new_lines=1, todo="t1"),
    Hunk(id="b", old_start=4, old_lines=0, new_start=4, new_lines=1),
)
CHECK = Check(call="c", command="pytest -q", exit_code=0)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session with an answer, a command, one hunk accepted after a check and one rejected."""
    directory = tmp_path / "ses_a"
    directory.mkdir()
    blobs = BlobStore(directory / "blobs")
    blobs.directory.mkdir()
    old, new = (FileState(blob=blobs.put(data), size=len(data)) for data in (OLD, NEW))
    change = Change(path="a.txt", operation="edit", base=old, pending=new, hunks=HUNKS, added=2, removed=1)
    verdict = VerdictRecord(
        id="v1",
        path="a.txt",
        verdict="accept",
        hunks=HUNKS[:1],
        base_before=old,
        base_after=old,
        pending_before=new,
        pending_after=new,
    )
    rejected = replace(verdict, id="v2", verdict="reject", hunks=HUNKS[1:], reason=f"no {KEY}")
    ran = d.TerminalCommandMetadata(command="cat x", output=f"{Path.home()}/x {EVIL}", exit_code=0)
    answer_text = f"Done: ![see](https://evil.example/x.png) [a](javascript:alert(1)) **well** {EVIL} {KEY}"
    events: list[ev.AnyEvent] = [
        ev.SessionStarted(
            workspace=str(tmp_path / "shop"), mode="agent", model="m", title=f"Fix {EVIL}", branch="topic"
        ),
        ev.TurnStarted(prompt=f"Please {EVIL}", mode="agent", model="m"),
        ev.DocumentFinished(document=d.TextDocument(id="1", sequence=1, content=answer_text)),
        ev.DocumentFinished(document=d.TerminalCommandDocument(id="2", sequence=2, metadata=ran)),
        ev.ChangeProposed(change=change),
        ev.CheckRecorded(check=CHECK),
        ev.TurnFinished(reason="done"),
        ev.VerdictGiven(verdict=verdict),
        ev.VerdictGiven(verdict=rejected),
        ev.TurnStarted(prompt="And then?", mode="agent", model="m"),
        ev.DocumentFinished(document=d.TextDocument(id="3", sequence=1, content="```\nfence\n```")),
    ]
    with (directory / "log.jsonl").open("wb") as file:
        for seq, event in enumerate(events, 1):
            file.write(encode_record(ev.Envelope(seq=seq, session="ses_a", at=seq * 1000, event=event)))
    return directory


def test_the_record_has_every_turn_and_each_verdict_with_its_hunk_and_evidence(session):
    export = read_export(session)
    assert [turn.prompt[:6] for turn in export.turns] == ["Please", "And th"]
    assert [len(turn.documents) for turn in export.turns] == [2, 1]
    accepted, rejected, waiting = export.changes
    lines = [(row.kind, row.text) for row in accepted.lines if row.kind != "context"]
    assert lines == [("removed", "two"), ("added", "TWO")]
    assert (accepted.check, accepted.todos) == (CHECK, ("t1",))
    assert [(row.kind, row.text) for row in rejected.lines if row.kind != "context"] == [("added", "four <b>")]
    assert (waiting.verdict, waiting.path) == (None, "a.txt")
    assert export.project == "shop"


@pytest.mark.parametrize("wanted", ["md", "html", "json"])
def test_no_key_and_no_home_directory_is_in_any_format(session, wanted):
    text = export_session(session, wanted).text
    assert KEY not in text
    assert f"{Path.home()}/x" not in text
    assert str(session.parent) not in text
    assert "TWO" in text
    assert "pytest -q" in text


def test_the_page_runs_nothing_and_loads_nothing(session):
    answer = export_session(session, "html")
    page = Page(answer.text)
    assert {"script", "img", "link", "iframe", "b"}.isdisjoint(page.tags)
    assert not [attribute for attribute in page.attributes if attribute.startswith("on") or attribute == "src"]
    assert "javascript:" not in [*page.attributes]
    assert 'href="javascript' not in answer.text
    assert "https://evil.example/x.png" in page.text
    assert "<script>alert(1)</script>" in page.text  # as text, where it was said
    assert "default-src 'none'" in answer.text
    assert "strong" in page.tags


def test_markdown_lets_nobody_out_of_a_fence_and_json_is_read_back(session):
    text = export_session(session, "md").text
    assert text.startswith("# Fix ")
    assert "```diff\n one\n-two\n+TWO" in text
    assert "a.txt: accepted" in text
    again = parse_json(export_session(session, "json").text)
    assert again == read_export(session)
    assert json.loads(export_session(session, "json").text)["branch"] == "topic"


def test_lines_whose_bytes_are_lost_are_told_and_no_failure(session):
    for blob in (session / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    assert [change.note for change in read_export(session).changes] == ["its lines are not saved"] * 3


def test_a_file_that_is_there_is_never_replaced(session, tmp_path):
    answer = export_session(session, "md")
    assert write_export(answer, tmp_path) == tmp_path / answer.name
    assert (tmp_path / answer.name).read_text(encoding="utf-8") == answer.text
    with pytest.raises(StateError, match="already exists"):
        write_export(answer, tmp_path / answer.name)


def write_session(directory: Path, *events: ev.AnyEvent) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "blobs").mkdir(exist_ok=True)
    start = ev.SessionStarted(workspace=str(directory / "shop"), mode="agent", model="m", title="T")
    all_events = (start, ev.TurnStarted(prompt="Go", mode="agent", model="m"), *events, ev.TurnFinished(reason="done"))
    with (directory / "log.jsonl").open("wb") as file:
        for seq, event in enumerate(all_events, 1):
            file.write(encode_record(ev.Envelope(seq=seq, session=directory.name, at=seq * 1000, event=event)))
    return directory


def propose(directory: Path, new: bytes, path: str = "a.py") -> Change:
    (directory / "blobs").mkdir(parents=True, exist_ok=True)
    blobs = BlobStore(directory / "blobs")
    old, pending = (FileState(blob=blobs.put(data), size=len(data)) for data in (b"k = 1\n", b"k = 1\n" + new))
    hunk = Hunk(id="a", old_start=2, old_lines=0, new_start=2, new_lines=new.count(b"\n"))
    return Change(path=path, operation="edit", base=old, pending=pending, hunks=(hunk,), added=1)


def read_as(directory: Path, export_format: str) -> str:
    text = export_session(directory, export_format).text
    return Page(text).text if export_format == "html" else text


@pytest.mark.parametrize("wanted", ["md", "html"])
def test_n21_an_export_draws_no_two_lines_alike(tmp_path, wanted):
    lines = [
        "a\u200bb",
        "a‹U+200B›b",
        "\x1b",
        "␛",
        "аре",
        "are",
        "e\u0301",
        "é",
        "a ",
        "a",
        "\ta",
        "    a",
        "a\u00a0",
        "a\r",
    ]
    lines += ["\U000e0165\U000e0166", "\U000e0165\U000e0167", "x" * 3_000 + "; import os", "x" * 3_000 + "; import re"]
    texts = set()
    for at, line in enumerate(lines):
        directory = tmp_path / f"ses_{at}"
        change = propose(directory, f"{line}\n".encode())
        text = read_as(write_session(directory, ev.ChangeProposed(change=change)), wanted)
        texts.add(text[text.index("+", text.index("k = 1")) :])
    assert len(texts) == len(lines)


@pytest.mark.parametrize("wanted", ["md", "html"])
def test_n21_an_export_tells_names_and_commands_with_odd_blanks_apart(tmp_path, wanted):
    names = ["a b", "a  b", "a\tb", "a\nb", "a\u00a0b", "a\u3000b", " a b", "a b ", "a‹U+00A0›b"]
    for make in (
        lambda directory, name: ev.ChangeProposed(change=propose(directory, b"x\n", f"{name}.py")),
        lambda _, name: ev.DocumentFinished(
            document=d.TerminalCommandDocument(id="1", sequence=1, metadata=d.TerminalCommandMetadata(command=name))
        ),
    ):
        texts = [
            " ".join(read_as(write_session(tmp_path / "ses_x", make(tmp_path / "ses_x", name)), wanted).split())
            for name in names
        ]
        assert len(set(texts)) == len(names)


@pytest.mark.parametrize("wanted", ["md", "html"])
def test_n25_what_an_agent_of_others_reports_is_marked_as_its_report(tmp_path, wanted):
    ran = d.TerminalCommandMetadata(command="pytest -q", output="215 passed in 3.2s", exit_code=0, is_reported=True)
    event = ev.DocumentFinished(document=d.TerminalCommandDocument(id="1", sequence=1, metadata=ran))
    text = read_as(write_session(tmp_path / "ses_x", event), wanted)
    assert "$ pytest -q (ended, as reported by the agent, like its output)" in text
    assert "exit 0" not in text
    seen = ev.DocumentFinished(
        document=d.TerminalCommandDocument(id="1", sequence=1, metadata=replace(ran, is_reported=False))
    )
    assert "$ pytest -q (exit 0)" in read_as(write_session(tmp_path / "ses_y", seen), wanted)


def test_n25_the_check_of_what_was_accepted_is_told(tmp_path):
    check = replace(CHECK, kind="tests", is_verified=True)
    change = replace(propose(tmp_path / "ses_x", b"x\n"), check=check)
    verdict = VerdictRecord(
        id="v1",
        path="a.py",
        verdict="accept",
        hunks=change.hunks,
        base_before=change.base,
        base_after=change.pending,
        pending_before=change.pending,
        pending_after=change.pending,
        check=check,
    )
    events = (
        ev.ChangeProposed(change=change),
        ev.ChangeResolved(path="a.py"),  # it comes before the verdict
        ev.VerdictGiven(verdict=verdict),
    )
    text = export_session(write_session(tmp_path / "ses_x", *events), "md").text
    assert "### a.py: accepted" in text
    assert "- tests passed since: pytest -q, run again in a clean layer" in text
    assert "not checked" not in text


def test_n25_a_check_that_changed_tests_decided_is_told_as_in_the_review(tmp_path):
    check = replace(CHECK, kind="tests", changed_here=("test_a.py",))
    change = replace(propose(tmp_path / "ses_x", b"x\n"), check=check)
    text = export_session(write_session(tmp_path / "ses_x", ev.ChangeProposed(change=change)), "md").text
    assert "tests passed since: pytest -q, with tests or settings changed here (test\\_a.py)" in text
