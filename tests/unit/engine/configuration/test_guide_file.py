from __future__ import annotations

from core.engine.configuration.guide_file import GuideState, choose_file, load_guide, save_guide
from core.protocol.commands import GuideKeep
from core.user_dirs import get_state_dir


def test_the_tour_is_new_at_the_first_start_and_goes_on_where_it_was_left():
    assert load_guide().tour == "new"
    save_guide(GuideKeep(tour="mode"))
    assert load_guide().tour == "mode"
    save_guide(GuideKeep(tour="done"))
    assert load_guide().tour == "done"


def test_who_has_worked_before_is_shown_no_tour():
    for name in ("one", "two"):
        (get_state_dir() / "workspaces" / f"shop-{name}" / "sessions" / "ses").mkdir(parents=True)
    assert load_guide().tour == "done"


def test_hints_are_counted_and_known_ones_are_kept_once():
    for _ in range(2):
        save_guide(GuideKeep(shown="copy"))
        save_guide(GuideKeep(used="review"))
    assert load_guide() == GuideState(shown={"copy": 2}, used=("review",))


def test_what_was_chosen_last_comes_first_each_once_and_not_without_end():
    for name in (*map(str, range(20)), "7", "19"):
        save_guide(GuideKeep(chosen=name))
    assert load_guide().chosen == ("19", "7", "18", "17", "16", "15", "14", "13")


def test_a_damaged_file_does_no_harm():
    get_state_dir().mkdir(parents=True)
    (get_state_dir() / "guide.json").write_text('{"tour": 3')
    assert load_guide().tour == "new"
    save_guide(GuideKeep(tour="done"))
    assert load_guide().tour == "done"


def test_code_that_is_not_deep_is_the_example():
    assert choose_file(("README.md", "a/b/deep.py", "till/tax.py", ".gitignore")) == "till/tax.py"
    assert choose_file(("b.txt", "a.txt")) == "a.txt"
    assert choose_file(()) == ""
