"""Questions made of a repository's history: what a fix says of its problem, and the files that it then changed.

A question is the message of a commit that names an issue, without what only the author of the fix knew (paths of
changed files, trailers, the scope of a conventional commit). Two of three have the reproduction with it: lines that the
commit added to tests. It is asked of the parent commit's tree. Only commits are kept; the texts come from the clone.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

FIX = r"(fix(e[sd])?|close[sd]?|resolve[sd]?):? +#[0-9]+"
SOURCES = frozenset(
    {"py", "js", "jsx", "ts", "tsx", "mjs", "cjs", "go", "rs", "rb", "c", "h", "cc", "cpp", "java", "php", "cs", "vue"}
)
ASIDE = re.compile(
    r"(^|/)(tests?|testing|__tests__|specs?|docs?|examples?|fixtures|benchmarks?|vendor|dist|node_modules|changelog\S*"
    r"|website|deps)(/|$)|(^|/)(test_[^/]*|conftest\.py|setup\.py|[^/]*[._-](test|spec|d)\.[^/]+|[^/]*_test\.\w+"
    r"|[^/]*Test\.java)$",
    re.IGNORECASE,
)
QUOTED = r"Traceback \(most|File \"|```|^ *>>> "
LONG = 500
"""Characters of a message that quotes code or a traceback, and so reads like an issue."""
MAX_CHANGED = 3
MAX_REPRODUCTION = 25
"""Lines of a reproduction."""


class Question(Struct, frozen=True):
    """`text` is asked of the tree of `commit`; `files` should be found. `fix`: the commit it was made of, "" = none."""

    repository: str
    commit: str
    text: str
    files: tuple[str, ...]
    fix: str = ""
    is_reproduced: bool = False


def run_git(repository: Path, *arguments: str) -> str:
    """Return what git prints. Raises `CalledProcessError`."""
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "replace")


def mine_questions(repository: Path, name: str, count: int, *, pattern: str = FIX) -> list[Question]:
    """Return at most `count` questions from the fixes of a clone, spread evenly over its history."""
    log = run_git(repository, "log", "--no-merges", "-i", "-E", f"--grep={pattern}", "--format=%H")
    fixes = log.split()
    step = max(1, len(fixes) // (count * 4))
    questions: list[Question] = []
    for number, commit in enumerate(fixes[::step]):
        question = parse_query(repository, name, commit, reproduction=pattern is FIX and number % 3 > 0)
        if question is not None and (pattern is FIX or len(question.text) > LONG):
            questions.append(question)
    return (
        [questions[len(questions) * index // count] for index in range(count)] if len(questions) > count else questions
    )


def parse_query(repository: Path, name: str, fix: str, *, reproduction: bool) -> Question | None:
    """Return the question of a fix; None if it tells too little, or changed too much."""
    changed = run_git(repository, "show", "--no-renames", "--format=", "--name-status", fix).splitlines()
    edited = [path for mark, path in (line.split("\t", 1) for line in changed) if mark == "M"]
    files = [path for path in edited if path.rsplit(".", 1)[-1] in SOURCES and not ASIDE.search(path)]
    if not 1 <= len(files) <= MAX_CHANGED:
        return None
    message = clean_message(run_git(repository, "show", "-s", "--format=%B", fix), files)
    if len(message.split()) < 4:
        return None
    lines = list(_read_reproduction(repository, fix)) if reproduction else []
    parent = run_git(repository, "rev-parse", f"{fix}^").strip()
    text = "\n\n".join(filter(None, (message, "\n".join(lines))))
    return Question(name, parent, text, tuple(files), fix, is_reproduced=bool(lines))


def clean_message(message: str, files: Sequence[str]) -> str:
    """Return a commit's message as somebody could have written it who has not seen the fix."""
    message = re.sub(
        r"(?im)^((co-)?authored|signed-off|reviewed|tested|reported|acked|suggested|cc|pr-url)[\w-]*:.*$", "", message
    )
    message = re.sub(r"<!--.*?-->|https?://\S+", "", message, flags=re.DOTALL)
    message = re.sub(r"(?i)\(?\b" + FIX + r"(\s*(,|and|&)\s*#\d+)*\)?[:.,]?|\(?#\d+\)?:?", "", message)
    message = re.sub(r"(?m)\A\s*(\w+)(\([^)\n]*\))!?:\s*", r"", message)
    for path in files:
        message = message.replace(path, "").replace(path.rsplit("/", 1)[-1], "")
    return re.sub(r"\n{3,}", "\n\n", message).strip()[:3000]


def _read_reproduction(repository: Path, fix: str) -> Iterator[str]:
    """Iterate over lines that a fix added to tests: those of the first file, without its comments."""
    diff = run_git(repository, "show", "--format=", "--no-renames", "-U0", fix)
    row_count, in_test = 0, False
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line[6:]
            if row_count:
                return
            in_test = bool(ASIDE.search(path)) and path.rsplit(".", 1)[-1] in SOURCES
        elif in_test and line.startswith("+") and row_count < MAX_REPRODUCTION and line[1:].strip():
            row_count += 1
            yield line[1:]
