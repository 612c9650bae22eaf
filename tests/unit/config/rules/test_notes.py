"""Notes about a project: proposed, kept by a yes, bounded, clean, and safe with two at once."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from core.config.rules.loading import load_rule_files
from core.config.rules.notes import MAX_NOTE, MAX_NOTES, MAX_WAITING, ProjectNotes
from core.config.rules.rule import MEMORY_REASON, choose_rules, list_loaded
from core.errors import CommandRejected
from core.user_dirs import get_state_dir
from core.workspace import Workspace


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def told(project, is_trusted=lambda *_: True):
    files = load_rule_files(Workspace(project), is_trusted)
    return [
        (loaded_rule.kind, loaded_rule.reason, loaded_rule.note)
        for loaded_rule in list_loaded(files, choose_rules(files))
        if loaded_rule.position
    ]


def test_a_proposed_note_binds_once_it_is_accepted_and_no_longer_once_it_is_dropped(project):
    notes = ProjectNotes(project)
    note = notes.add("Tests need a database.", "They failed without one.", is_kept=False)
    assert [(memory_note.text, memory_note.why, memory_note.is_kept) for memory_note in notes.load()] == [
        (note.text, note.why, False)
    ]
    assert told(project) == []
    notes.accept(note.id)
    assert told(project) == [("memory", MEMORY_REASON, "")]
    assert told(project, None) == [("memory", MEMORY_REASON, "")]  # it is the user's own: it asks for no trust
    notes.accept(note.id, "Tests need Postgres.")
    assert [memory_note.text for memory_note in ProjectNotes(project).load()] == ["Tests need Postgres."]
    notes.reject(note.id)
    assert (notes.load(), told(project)) == ((), [])


def test_notes_are_those_of_one_project(project, tmp_path):
    ProjectNotes(project).add("Here.", is_kept=True)
    (tmp_path / "other").mkdir()
    assert ProjectNotes(tmp_path / "other").load() == ()


def test_what_is_invisible_or_secret_is_not_kept(project):
    key = "sk-ant-api03-" + "a1B2" * 20
    note = ProjectNotes(project).add(f"Use\u200b <!-- not --> the\nkey {key}\u202e now.", is_kept=True)
    assert note.text.startswith("Use the key ")
    assert key not in note.text
    assert "\u202e" not in note.text
    assert len(ProjectNotes(project).add("word " * 1_000, is_kept=True).text) <= MAX_NOTE


def test_the_same_words_wait_or_are_kept_once_and_a_user_keeps_what_waits(project):
    notes = ProjectNotes(project)
    notes.add("Twice.", is_kept=False)
    with pytest.raises(CommandRejected, match="is waiting for your decision already"):
        notes.add(" Twice. ", is_kept=False)
    notes.add("Twice.", is_kept=True)
    with pytest.raises(CommandRejected, match="is kept already"):
        notes.add("Twice.", is_kept=False)
    assert [memory_note.is_kept for memory_note in notes.load()] == [True]


@pytest.mark.parametrize(("is_kept", "most"), [(True, MAX_NOTES), (False, MAX_WAITING)])
def test_there_is_room_for_so_many(project, is_kept, most):
    notes = ProjectNotes(project)
    for number in range(most):
        notes.add(f"Note {number}.", is_kept=is_kept)
    with pytest.raises(CommandRejected, match="the limit of"):
        notes.add("One more.", is_kept=is_kept)
    notes.add("Of the other kind.", is_kept=not is_kept)


@pytest.mark.parametrize("text", ["", "  \n ", "\u200b", "<!-- nothing -->"])
def test_a_note_without_words_is_refused(project, text):
    with pytest.raises(CommandRejected, match="is empty"):
        ProjectNotes(project).add(text, is_kept=True)


def test_a_verdict_on_a_note_that_is_gone_is_refused(project):
    for judge in (ProjectNotes(project).accept, ProjectNotes(project).reject):
        with pytest.raises(CommandRejected, match="no note 'note_1'"):
            judge("note_1")


def test_a_broken_file_is_said_and_takes_no_other_rule_along(project):
    (project / "AGENTS.md").write_text("Be brief.")
    get_state_dir().mkdir(parents=True, exist_ok=True)
    (get_state_dir() / "memory.json").write_text("{")
    files = load_rule_files(Workspace(project))
    assert [rule.path for rule in files.rules] == ["AGENTS.md"]
    assert [(problem.path, problem.kind) for problem in files.problems] == [("memory", "memory")]
    assert "memory.json can't be used" in files.problems[0].note


def test_two_processes_lose_nothing(project):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_many, args=(project, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(ProjectNotes(project).load()) == 40


def _add_many(project: Path, name: str) -> None:
    for number in range(20):
        ProjectNotes(project).add(f"{name} {number}", is_kept=True)
