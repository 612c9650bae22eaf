from __future__ import annotations

from pathlib import Path

import pytest

from core.hooks.dialect_names import HookEvent
from core.hooks.hook_files import explain_missing, find_script, list_script_files
from core.hooks.parsing import Hook


def hook(command: str, home: str = "") -> Hook:
    return Hook(event=HookEvent.STOP, command=command, dialect="claude", scope="project", source="a", home=home)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (".cursor/hooks/a.sh", ".cursor/hooks/a.sh"),
        ("./hooks/a.sh arg", "hooks/a.sh"),
        ('"$CLAUDE_PROJECT_DIR"/.claude/hooks/a.sh', ".claude/hooks/a.sh"),
        ("python3 ${CLAUDE_PROJECT_DIR}/a/b.py --x", "a/b.py"),
        ("node .cursor/hooks/guard.mjs", ".cursor/hooks/guard.mjs"),
        ('EVENT=x DIR="${DIR:-.}" sh .cursor/hooks/probe.sh src/a.js', ".cursor/hooks/probe.sh"),
        ("uv run $CLAUDE_PROJECT_DIR/.claude/hooks/a.py --chat", ".claude/hooks/a.py"),
        ("deno run ./a/b.ts", "a/b.ts"),
        ("/usr/bin/env bash ./a/b.sh", None),
        ("bash -c 'cat > /dev/null; ./a/b.sh'", None),
        ("npx -y prettier", None),
        ("jq -r .tool_input.file_path | { read f; npx prettier --write $f; }", None),
        ("$UNKNOWN/a.sh", None),
        ("sumo forward cursor stop # sumo-managed:cursor", None),
        ("echo 'no end", None),
    ],
)
def test_the_script_of_a_command_is_found_by_its_words(command, script, tmp_path):
    path = find_script(hook(command), tmp_path)
    expected = None if script is None else tmp_path / script
    assert path == expected or (script is None and str(path) == "/usr/bin/env")


def test_scripts_of_the_user_and_of_plug_ins_are_found_from_their_places(tmp_path):
    assert find_script(hook("~/.claude/hooks/a.py"), tmp_path) == Path.home() / ".claude/hooks/a.py"
    assert find_script(hook("./hooks/a.sh", home=str(tmp_path / "home")), Path("/x")) == tmp_path / "home/hooks/a.sh"
    plugin = hook("${CLAUDE_PLUGIN_ROOT}/a.sh", home=str(tmp_path / "plugin"))
    assert find_script(plugin, Path("/x")) == tmp_path / "plugin/a.sh"


def test_a_script_that_is_gone_is_told_before_anything_runs(tmp_path):
    assert explain_missing(hook("python3 hooks/gone.py"), tmp_path) == "its script does not exist: hooks/gone.py"
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "gone.py").write_text("")
    assert explain_missing(hook("python3 hooks/gone.py"), tmp_path) is None
    assert explain_missing(hook("npx prettier"), tmp_path) is None


def test_the_files_that_a_command_names_are_trusted_with_it_and_a_folder_of_hooks_as_a_whole(tmp_path):
    for name in (
        ".cursor/hooks/a.sh",
        ".cursor/hooks/lib/b.sh",
        "src/c.js",
        "src/d.js",
        "guard.py",
        ".cursor/hooks.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def named(command: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in list_script_files(hook(command), tmp_path)]

    assert named("X=1 sh .cursor/hooks/a.sh src/c.js") == [".cursor/hooks/a.sh", ".cursor/hooks/lib/b.sh", "src/c.js"]
    assert named("bash -c 'cat | python3 guard.py --flag=src/d.js'") == ["guard.py", "src/d.js"]
    assert named("npx prettier --write /etc/passwd ../x") == []


@pytest.mark.parametrize(
    "command",
    [
        '"$CLAUDE_PROJECT_DIR"/tools/guard.py',
        'python3 "${CLAUDE_PROJECT_DIR}"/tools/guard.py --x',
        """sh -c 'exec "$CLAUDE_PROJECT_DIR"/tools/guard.py'""",
        "python3 $(git rev-parse --show-toplevel)/tools/guard.py",
        'ROOT=$(pwd); exec "$ROOT/tools/guard.py"',
        'cd "$CLAUDE_PROJECT_DIR/tools" && python3 guard.py',
        "cd tools; ./guard.py",
    ],
)
def test_n3_a_script_is_trusted_with_its_hook_however_its_path_is_spelled(command, tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "guard.py").write_text("")
    assert list_script_files(hook(command), tmp_path) == (tmp_path / "tools" / "guard.py",)


def test_a_script_with_a_blank_in_its_path_is_trusted_with_its_hook(tmp_path):
    (tmp_path / "my tools").mkdir()
    (tmp_path / "my tools" / "guard.py").write_text("")
    assert list_script_files(hook('python3 "my tools/guard.py"'), tmp_path) == (tmp_path / "my tools" / "guard.py",)


@pytest.mark.parametrize(
    "command", [f"echo {'a' * 300}", f"./{'a' * 300} x", f"x/{'b/' * 3000}c"], ids=["word", "script", "path"]
)
def test_a_command_with_a_word_that_is_too_long_for_a_name_is_no_fault(command, tmp_path):
    assert list_script_files(hook(command), tmp_path) == ()
    assert "too long" not in (explain_missing(hook(command), tmp_path) or "")
