"""The texts of the command dialect: strict, the user's over the program's, and every mistake named."""

from __future__ import annotations

import re

import pytest

from core.dialects.command import COMPLETION_MARKS, OUTPUT_LIMIT, CommandDialect
from core.dialects.dialect import CallFinished, CallResult
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


SHORT = "<returncode>{{ output.returncode }}</returncode>\n<output>\n{{ output.output }}\n</output>\n"


def indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("filtered", ["", " | trim"])
def test_a_template_that_does_not_cut_gets_output_that_is_cut_and_a_hint(mine, filtered):
    template = SHORT.replace("output.output }}", f"output.output{filtered} }}}}")
    dialect = CommandDialect(load_command_templates(mine(f"action_observation_template: |\n{indent(template)}")), GIVEN)
    output = "h" * 6_000 + "m" * 100 + "t" * 6_000
    text = dialect.format_result(CallResult(content="", command="ls", exit_code=0, output=output))
    assert len(text) < OUTPUT_LIMIT + 400
    assert text.startswith(
        f"<returncode>0</returncode>\n<output>\n{'h' * 5_000}\n[… 2,100 of 12,100 characters left out: "
    )
    assert "use a command that prints less" in text
    assert text.rstrip().endswith(f"{'t' * 5_000}\n</output>")
    short = dialect.format_result(CallResult(content="", command="ls", exit_code=0, output="x" * OUTPUT_LIMIT))
    assert "left out" not in short


def test_a_file_of_mini_swe_agent_is_read(mine):
    text = (
        "agent:\n  system_template: |\n    Be brief.\n  instance_template: |\n    Solve: {{ task }}\n"
        "  step_limit: 7\n  cost_limit: 0.5\n  mode: confirm\n"
        "environment:\n  timeout: 9\n  env:\n    PAGER: cat\nmodel:\n  model_name: x\n"
    )
    texts = load_command_templates(mine(text))
    assert (texts.timeout, texts.step_limit, texts.cost_limit) == (9, 7, 0.5)
    dialect = CommandDialect(texts, GIVEN)
    assert (dialect.render_system_prompt(), dialect.format_prompt("x")) == ("Be brief.", "Solve: x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("agent:\n  sytem_template: x\n", "line 2: unknown key `agent.sytem_template`"),
        ("agent:\n  step_limit: 1.5\n", "line 2: `step_limit` is a whole number of steps"),
        ("agent:\n  cost_limit: -1\n", "line 2: `cost_limit` is an amount of US dollars"),
        ("cost_limit: many\n", "line 1: `cost_limit` is an amount"),
        ("agent: x\n", "line 1: `agent` has to be a mapping"),
    ],
)
def test_a_wrong_key_or_limit_in_it_is_refused_with_its_line(mine, text, why):
    with pytest.raises(ConfigError, match=re.escape(why)):
        load_command_templates(mine(text))


def test_where_there_is_no_powershell_the_model_is_told(mine):
    texts = load_command_templates(mine("system_template: |\n  Answer with ONE PowerShell code block.\n"))
    has, lacks = (CommandDialect(texts, {**GIVEN, "shell": "bash"}, has_powershell=there) for there in (True, False))
    note = "There is no PowerShell on this machine: give the command for bash, in a ```bash block."
    assert note not in has.render_system_prompt()
    assert lacks.render_system_prompt().endswith(f"block.\n\n{note}\n")
    own = CommandDialect(load_command_templates(), GIVEN, has_powershell=False)
    assert "PowerShell" not in own.render_system_prompt()
    for dialect, is_refused in ((has, False), (lacks, True)):
        parser = dialect.create_parser()
        parser.feed("THOUGHT: look.\n```powershell\nGet-Content bug.py\n```\n")
        finished = [part for part in parser.finish() if isinstance(part, CallFinished)]
        assert (note in parser.ending.problem) == is_refused
        assert [bool(call.problem) for call in finished] == [is_refused]
    parser = lacks.create_parser()
    parser.feed("Done.\n```powershell\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```\n")
    parser.finish()
    assert (parser.ending.problem, parser.ending.is_done) == ("", True)
