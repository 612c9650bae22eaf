"""The texts of the command dialect: strict, the user's over the program's, and every mistake named."""

from __future__ import annotations

import pytest

from core.dialects.command import COMPLETION_MARKS, OUTPUT_LIMIT, CommandDialect
from core.dialects.dialect import CallResult
from core.errors import ConfigError
from core.prompts.command_templates import FACTS, TEMPLATES, load_command_templates

GIVEN = {fact: fact.upper() for fact in FACTS - {"completion_mark", "output_limit"}} | {"shell": "bash"}


@pytest.fixture
def dialect() -> CommandDialect:
    return CommandDialect(load_command_templates(), GIVEN)


@pytest.fixture
def mine(tmp_path):
    def write(text: str):
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_programs_own_texts_say_what_the_form_is(dialect):
    assert "exactly ONE bash code block" in dialect.render_system_prompt()
    assert "THOUGHT" in dialect.render_system_prompt()
    task = dialect.format_prompt("Mend {{ it }}")
    assert task.startswith("Mend {{ it }}\n\n")
    assert f"`echo {COMPLETION_MARKS[0]}`" in task
    assert load_command_templates().timeout == 30


def test_a_short_output_is_shown_whole(dialect):
    text = dialect.format_result(CallResult(content="", command="ls", exit_code=2, output="a\nb"))
    assert text == "<returncode>2</returncode>\n<output>\na\nb\n</output>"


def test_of_a_long_output_head_and_tail_are_shown_with_a_warning(dialect):
    output = "h" * 6_000 + "m" * 7 + "t" * 6_000
    text = dialect.format_result(CallResult(content="", command="ls", exit_code=0, output=output))
    assert f"<output_head>\n{'h' * 5_000}\n</output_head>" in text
    assert f"<output_tail>\n{'t' * 5_000}\n</output_tail>" in text
    assert "2007 characters left out" in text
    assert "too long" in text
    assert len(text) < OUTPUT_LIMIT + 1_000
    exact = dialect.format_result(CallResult(content="", command="ls", exit_code=0, output="x" * OUTPUT_LIMIT))
    assert "<warning>" not in exact


def test_a_command_that_ran_out_of_time_is_told_with_its_output(dialect):
    text = dialect.format_result(CallResult(content="", command="sleep 99", is_timed_out=True, output="so far"))
    assert "timed out after TIME_LIMIT seconds" in text
    assert "sleep 99" in text
    assert "so far" in text


def test_a_wrong_form_is_answered_with_the_right_one(dialect):
    listener = dialect.create_parser()
    listener.feed("```bash\na\n```\n```bash\nb\n```")
    listener.finish()
    assert "this one has 2" in listener.ending.problem
    assert "2 blocks were found and none was run" in listener.ending.problem
    assert "```bash\nyour_command_here\n```" in listener.ending.problem


def test_a_file_of_the_users_replaces_what_it_names_and_nothing_else(mine):
    texts = load_command_templates(mine("timeout: 5\ninstance_template: |\n  Do: {{ task }} on {{ system }}\n"))
    dialect = CommandDialect(texts, GIVEN)
    assert dialect.format_prompt("x") == "Do: x on SYSTEM"
    assert "exactly ONE" in dialect.render_system_prompt()
    assert texts.timeout == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("instance_template: |\n  {{ taks }}\n", ["line 1", "`instance_template`", "`taks`", "does not exist"]),
        ("\nsystem_template: |\n  {{ task }}\n", ["line 2", "`system_template`", "`task`"]),
        ("instance_template: |\n  {% if %}\n", ["`instance_template`", "not a valid template"]),
        ("instnace_template: x\n", ["line 1", "unknown key `instnace_template`"]),
        ("instance_template: [1]\n", ["`instance_template` has to be text"]),
        ("instance_template: ''\n", ["has to be text"]),
        ("timeout: soon\n", ["`timeout`", "seconds"]),
        ("timeout: 0\n", ["`timeout`", "1 to 600"]),
        ("a: [\n", ["not valid YAML", "line 2"]),
        ("- a\n", ["a mapping"]),
        ("", ["a mapping"]),
        ("!!python/object/apply:os.system ['true']\n", ["not valid YAML"]),
    ],
)
def test_a_mistake_is_named_with_its_place(mine, text, words):
    with pytest.raises(ConfigError) as caught:
        load_command_templates(mine(text))
    assert [word for word in ("mine.yaml", *words) if word not in caught.value.format_with_hint()] == []


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("{{ output.ouput }}", "ouput"),
        ("{{ output.returncode.real.x }}", "x"),
        ("{{ output.__class__.__mro__ }}", "__class__"),
        ("{{ 1 // 0 }}", "zero"),
    ],
)
def test_what_is_only_found_when_a_text_is_filled_in_is_named_too(mine, source, word):
    texts = load_command_templates(mine(f"action_observation_template: '{source}'\n"))
    with pytest.raises(ConfigError, match=word) as caught:
        CommandDialect(texts, GIVEN).format_result(CallResult(content="", command="a", exit_code=0, output=""))
    assert "`action_observation_template`" in caught.value.message


def test_a_file_that_is_not_there_or_no_text_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"can't be read.*No such file"):
        load_command_templates(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match="not a regular file"):
        load_command_templates(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"timeout: 3 # \xe9")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_command_templates(tmp_path / "latin.yaml")


def test_every_template_may_use_every_fact(mine):
    facts = " ".join(f"{{{{ {fact} }}}}" for fact in sorted(FACTS))
    texts = load_command_templates(mine("".join(f"{name}: '{facts}'\n" for name in TEMPLATES)))
    assert CommandDialect(texts, GIVEN).render_system_prompt().startswith(COMPLETION_MARKS[0])
