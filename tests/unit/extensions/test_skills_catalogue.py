"""The choice of skills that a model is told of."""

from __future__ import annotations

import random

from core.extensions.skills import BUDGET, MAX_NAMES, SkillQuery, choose_skills, load_skills, rank_skills

WORDS = ("parse", "render", "compile", "deploy", "migrate", "encrypt", "paginate", "throttle", "bisect", "invoice")


def many(places, count):
    picker = random.Random(7)
    for number in range(count):
        description = " ".join(picker.choices(WORDS, k=30))
        text = f"---\ndescription: {description}\n---\nDo it.\n"
        places.write({f".claude/skills/skill-{number:03}/SKILL.md": text})
    places.write({".claude/skills/zz-pdf/SKILL.md": "---\ndescription: Fill PDF forms\n---\nDo it.\n"})
    return load_skills(places.folders()).skills


def offered(choices):
    return [choice.skill.name for choice in choices if choice.is_offered]


def test_all_are_told_while_there_is_room(places):
    choices = choose_skills(many(places, 5), SkillQuery())
    assert len(offered(choices)) == 6


def test_beyond_the_budget_the_words_of_the_prompt_choose_and_the_others_are_named(places):
    skills = many(places, 200)
    choices = choose_skills(skills, SkillQuery(prompt="please fill these forms"))
    names = offered(choices)
    assert "zz-pdf" in names
    assert (
        sum(len(choice.skill.name) + len(choice.skill.description) for choice in choices if choice.is_offered) < BUDGET
    )
    listed_names = [choice.skill.name for choice in choices if choice.is_named]
    assert 0 < sum(map(len, listed_names)) <= MAX_NAMES
    assert all(choice.reason for choice in choices)


def test_what_was_told_stays_as_long_as_it_holds_the_best(places):
    skills = many(places, 200)
    previous_names = offered(choose_skills(skills, SkillQuery(prompt="please fill these forms")))
    assert set(offered(choose_skills(skills, SkillQuery(prompt="thank you", offered=previous_names)))) == set(
        previous_names
    )
    (best, _), *_ = rank_skills(skills, "throttle invoice bisect")
    fresh = offered(choose_skills(skills, SkillQuery(prompt="throttle invoice bisect", offered=["zz-pdf"])))
    assert best.name in fresh


def test_a_manual_skill_and_one_for_other_files_are_not_told_with_the_reason(places):
    places.write(
        {
            ".claude/skills/a/SKILL.md": "---\ndescription: d\ndisable-model-invocation: true\n---\nx",
            ".claude/skills/b/SKILL.md": '---\ndescription: d\npaths: ["**/*.sql"]\n---\nx',
        }
    )
    skills = load_skills(places.folders()).skills
    choices = choose_skills(skills, SkillQuery(paths=("a.py",)))
    assert [(choice.is_offered, choice.reason) for choice in choices] == [
        (False, "only you can call it: /a"),
        (False, "no file in use matches **/*.sql"),
    ]
    assert offered(choose_skills(skills, SkillQuery(paths=("db/x.sql",)))) == ["b"]
