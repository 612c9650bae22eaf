"""The command line: every argument is read, checked and explained."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from core import __version__
from core.arguments import EngineArguments, PrintArguments, ScreenArguments
from core.cli.arguments import parse
from core.cli.doctor import DoctorArguments
from core.cli.parsing import MODES
from core.cli.sessions import SessionsArguments
from core.exits import EXIT_MEANINGS, ExitCode


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def project(monkeypatch, tmp_path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "a file").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Terminal())
    return tmp_path


def refused(capsys, *argv: str) -> str:
    with pytest.raises(SystemExit) as leaving:
        parse(argv)
    assert leaving.value.code == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "See agent-tui --help." in err
    return err


def test_no_argument_opens_the_current_directory(project):
    assert parse([]) == ScreenArguments(directory=project)


@pytest.mark.parametrize("argv", [["shop", "--mode", "plan"], ["--mode", "plan", "shop"], ["--mode=plan", "./shop"]])
def test_a_directory_may_stand_anywhere(project, argv):
    assert parse(argv) == ScreenArguments(directory=project / "shop", mode="plan")


def test_every_option_of_a_printed_run_is_read(project):
    line = ["-p", "hi there", "shop", "--mode", "ask", "--model", "openai/a/b", "--output-format", "json"]
    line += ["--accept", "all", "--max-steps", "20", "--max-cost", "$0.5", "--max-tokens", "10,000", "--resume", "s-1"]
    assert parse(line) == PrintArguments(
        directory=project / "shop",
        resume="s-1",
        mode="ask",
        model="openai/a/b",
        prompt="hi there",
        output_format="json",
        accept=("all",),
        max_steps=20,
        max_cost=0.5,
        max_tokens=10_000,
    )


def test_the_prompt_may_come_from_a_pipe(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("piped"))
    options = parse(["-p"])
    assert (options.front, options.prompt) == ("print", None)


@pytest.mark.parametrize("model", ["ollama/qwen3:8b", "work/team/model", "scripted/demo.yaml"])
def test_a_model_of_any_provider_may_be_named(model):
    assert parse(["--model", model]).model == model


def test_a_model_without_its_provider_is_its_makers():
    assert parse(["--model", "gpt-5.4"]).model == "openai/gpt-5.4"


@pytest.mark.parametrize("stdin", [Terminal(), None])
def test_a_printed_run_without_any_prompt_is_refused(monkeypatch, capsys, stdin):
    monkeypatch.setattr("sys.stdin", stdin)
    assert "-p needs a prompt" in refused(capsys, "-p")


def test_a_command_takes_a_directory_and_a_directory_of_its_name_is_reached_by_path(project):
    assert parse(["sessions", "shop"]) == SessionsArguments(directory=project / "shop")
    assert parse(["doctor"]) == DoctorArguments(directory=project)
    assert parse(["doctor", "--probe"]) == DoctorArguments(directory=project, probe=True)
    assert parse(["./sessions"]) == ScreenArguments(directory=project / "sessions")


def test_the_engine_takes_the_options_of_a_session(project):
    options = parse(["--engine", "shop", "-c", "--mode", "debug"])
    assert options == EngineArguments(directory=project / "shop", continue_last=True, mode="debug")


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["nowhere"], "no directory 'nowhere'"),
        (["a file"], "'a file' is a file"),
        (["shop", "sessions"], "one directory at most"),
        (["--mode", "ask", "box"], "box is a command and has to come first"),
        (["fix", "the", "bug"], "quote a prompt after -p"),
        (["x\0y"], "cannot open"),
        (["doctor", "-p", "x"], "doctor takes no options"),
        (["--probe"], "--probe works only with doctor"),
        (["--mode", "yolo"], "invalid choice: 'yolo'"),
        (["--model", "nonsense"], "expected PROVIDER/NAME"),
        (["--model", "openai/"], "is not a model"),
        (["--model", "/gpt-5"], "is not a model"),
        (["--resume", "../../etc"], "not a session id"),
        (["-c", "--resume", "s-1"], "not allowed with"),
        (["--demo", "--resume", "ses_1"], "leave out --demo"),
        (["--demo", "-p", "x"], "--demo needs the screen"),
        (["--demo", "--model", "openai/x"], "has its own scripted model"),
        (["--accept", "all"], "--accept works only with -p"),
        (["--output-format", "json"], "--output-format works only with -p"),
        (["-p", "x", "--output-format", "xml"], "invalid choice: 'xml'"),
        (["--max-steps", "0"], "0 is less than 1"),
        (["--max-steps", "many"], "'many' is not a whole number"),
        (["--max-cost", "-1"], "above zero"),
        (["--max-cost", "nan"], "above zero"),
        (["--max-cost", "cheap"], "US dollars"),
        (["--mod", "ask"], "unrecognized arguments"),
    ],
)
def test_a_wrong_argument_is_explained(capsys, argv, why):
    assert why in refused(capsys, *argv)


def test_help_names_every_option_mode_and_exit_code(capsys):
    with pytest.raises(SystemExit) as leaving:
        parse(["--help"])
    text = capsys.readouterr().out
    assert leaving.value.code == 0
    assert all(word in text for word in ("--resume", "--accept", "stream-json", "sessions", "doctor", *MODES))
    assert all(f"  {code.value:<4}{EXIT_MEANINGS[code]}" in text for code in ExitCode)
    assert "--engine" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_version_is_the_one_of_the_package(capsys):
    with pytest.raises(SystemExit):
        parse(["--version"])
    assert capsys.readouterr().out == f"agent-tui {__version__}\n"
