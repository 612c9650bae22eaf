"""Changed files that judge by what another file says: scripts of runners, tests inside of code."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from core.protocol.review import Change, FileState
from core.shell.verification.steering_files import find_changed_steering_files

FILE = FileState(kind="file", mode=0o644)
CODE = b"pub fn price(a: u32) -> u32 { a * 2 }\n"
TESTS = b"#[cfg(test)]\nmod tests {\n    #[test]\n    fn doubles() { assert_eq!(super::price(3), 6); }\n}\n"


class Texts:
    """The files that a check sees, and what the changed ones were."""

    def __init__(self, files: Mapping[str, bytes], before: bytes = b"") -> None:
        self._files, self._before = files, before

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def read_base(self, change: Change) -> bytes:
        return self._before


def judges(path: str, command: str, texts: Texts) -> tuple[str, ...]:
    changes = {path: Change(path=path, operation="edit", base=FILE, pending=FILE)}
    return find_changed_steering_files(changes, command, texts, is_of_tests=True)


@pytest.mark.parametrize(
    ("name", "text", "command", "path"),
    [
        ("package.json", '{"scripts": {"test": "node check.js"}}', "npm test", "check.js"),
        ("package.json", '{"scripts": {"test": "eslint . && ./run-all --fast"}}', "npm run test", "run-all"),
        ("Makefile", "test:\n\t@python checks/run.py\n", "make test", "checks/run.py"),
        ("Makefile", "test:\n\tcd sub && ./judge\n", "make -s test", "sub/judge"),
        ("justfile", "test:\n    ruby judge.rb\n", "just test", "judge.rb"),
        ("Rakefile", "task :test do\n  sh 'ruby judge.rb'\nend\n", "bundle exec rake test", "judge.rb"),
    ],
)
def test_n27_a_program_that_a_runner_hands_on_to_judges(name, text, command, path):
    assert judges(path, command, Texts({name: text.encode()})) == (path,)


@pytest.mark.parametrize(
    ("name", "text", "command", "path"),
    [
        ("package.json", '{"main": "index.js", "scripts": {"test": "jest"}}', "npm test", "index.js"),
        ("Makefile", "prog: main.c\n\t$(CC) -o prog main.c\ntest: prog\n\t./prog --check\n", "make test", "main.c"),
        ("Makefile", "test:\n\tpython run.py\n", "pytest -q", "run.py"),
        ("package.json", "[1, 2", "npm test", "src/a.js"),
    ],
)
def test_n27_what_is_only_built_or_not_called_judges_nothing(name, text, command, path):
    assert judges(path, command, Texts({name: text.encode()})) == ()


def test_n27_tests_that_stand_in_the_changed_file_itself_judge():
    weaker = TESTS.replace(b", 6)", b", 0)")
    assert judges("src/lib.rs", "cargo test", Texts({"src/lib.rs": CODE + weaker}, CODE + TESTS)) == ("src/lib.rs",)
    other = CODE.replace(b"a * 2", b"a + a")
    assert judges("src/lib.rs", "cargo test", Texts({"src/lib.rs": other + TESTS}, CODE + TESTS)) == ()


@pytest.mark.parametrize(
    ("path", "twin"),
    [("mod/__init__.py", "mod.py"), ("lib/mod", "lib/mod.js"), ("mod.js", "mod.ts"), ("mod.so", "mod.py")],
)
def test_n27_a_new_module_that_may_be_loaded_in_the_place_of_another_judges(path, twin):
    changes = {path: Change(path=path, operation="create", base=FileState(kind="absent", mode=0), pending=FILE)}
    beside, alone = Texts({path: b"x", twin: b"x"}), Texts({path: b"x"})
    assert find_changed_steering_files(changes, "pytest -q", beside, is_of_tests=True) == (path,)
    assert find_changed_steering_files(changes, "pytest -q", alone, is_of_tests=True) == ()
