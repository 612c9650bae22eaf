from __future__ import annotations

import pytest

from core.agent.answer.documents import CodeContext, guess_purpose

DEFINES = "import jwt\n\n\ndef check(token):\n    return jwt.decode(token)"
USES = "check(token)\nprint(1)"


@pytest.mark.parametrize(
    ("info", "content", "purpose"),
    [
        ("python", DEFINES, "new_code"),
        ("python", USES, "example"),
        ("python src/app.py", USES, "suggestion"),
        ("python src/new.py", USES, "new_code"),
        ('python title="src/new.py"', USES, "new_code"),
        ("src/app.py", USES, "suggestion"),
        ("ts", "// web/new.ts\nf()", "new_code"),
        ("python", "# src/app.py\ncheck()", "suggestion"),
        ("python", "# a line of prose\ncheck()", "example"),
        ("rust", "pub(crate) fn main() {}", "new_code"),
        ("bash", "pip install x", "suggestion"),
        ("diff", "-a\n+b", "suggestion"),
        ("text", "class 3 of 4", "example"),
        ("", DEFINES, "example"),
        ("json", '{"type": "x"}', "example"),
    ],
)
def test_a_block_is_for_what_it_names_and_defines(info, content, purpose):
    context = CodeContext("agent", lambda path: path == "src/app.py")
    language = "" if "/" in info.split(" ")[0] else info.partition(" ")[0]
    assert guess_purpose(info, language, content, context) == purpose


@pytest.mark.parametrize(("mode", "purpose"), [("ask", "example"), ("plan", "suggestion"), ("debug", "new_code")])
def test_code_that_is_written_where_none_may_be_is_not_new(mode, purpose):
    assert guess_purpose("python", "python", DEFINES, CodeContext(mode)) == purpose
