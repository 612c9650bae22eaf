"""Where hunks belong: the exact result, or a refusal; never another place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.edit_corpus.changes import Change, Span
from benchmarks.patches import REFUSED, RIGHT, judged, patches
from core.edits.errors import EditError
from core.edits.formats.patch import apply_file_patch
from core.edits.formats.patch_parser import parse_patch

HEAD = "*** Begin Patch\n*** Update File: f\n"
README = "Use\n```\nfoo\n```\nend\n"
TWO = "def f():\n    x = 9\n\ndef g():\n    x = 1\n"
TOTAL = "def compute_total(items):\n    total = sum(items)\n    return total\n"
CLASSES = "class A:\n    def f(self):\n        x\n\nclass B:\n    def f(self):\n        x\n"


def applied(text: str, hunks: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    [patch] = parse_patch(f"{HEAD}{hunks}*** End Patch\n" if hunks.startswith("@@") else hunks)
    done = apply_file_patch(text, patch)
    return done.text or "", done.rungs, done.slips


def diff(text: str) -> str:
    return f"--- a/f\n+++ b/f\n{text}"


@pytest.mark.parametrize(
    ("text", "hunks", "after"),
    [
        (README, "@@\n Use\n```\n-foo\n+bar\n```\n end\n", "Use\n```\nbar\n```\nend\n"),
        (README, diff("@@ -1,5 +1,5 @@\n Use\n```\n-foo\n+bar\n```\n end\n"), "Use\n```\nbar\n```\nend\n"),
        (README, f"```diff\n{diff('@@ @@')}\n Use\n```\n-foo\n+bar\n```\n end\n```\n", "Use\n```\nbar\n```\nend\n"),
        ("def f():\n    a\n    b\n", "@@\ndef f():\n    a\n+    c\n    b\n", "def f():\n    a\n    c\n    b\n"),
        ("def f():\n    a\n    b\n", "@@\n def f():\n    a\n-    b\n+    c\n", "def f():\n    a\n    c\n"),
        ("/**\n * a\n * b\n */\n", "@@\n * a\n+ * new\n * b\n", "/**\n * a\n * new\n * b\n */\n"),
        ("func f() {\n\ta()\n\tb()\n}\n", "@@\n\ta()\n+\tc()\n\tb()\n", "func f() {\n\ta()\n\tc()\n\tb()\n}\n"),
        ("a\nb\nc\nd\n", "@@\n-d\n+D\n@@\n-a\n+A\n", "A\nb\nc\nD\n"),
        ("a\nb\nc\nd\ne\n", "@@\n a\n-b\n+B\n c\n@@\n c\n-d\n+D\n e\n", "a\nB\nc\nD\ne\n"),
        ("a\n\nb\n", "@@\n \n+x\n", "a\n\nx\nb\n"),
        ("a\n\nb\n", "@@\n-\n", "a\nb\n"),
        ("a\n\n\nb\n", "@@\n-\n", "a\n\nb\n"),
        ("a\n\nb\n\nc\n", diff("@@ -4 +3,0 @@\n-\n"), "a\n\nb\nc\n"),
        ("a\n\nb\n\nc\n", diff("@@ -2,0 +3 @@\n+x\n"), "a\n\nx\nb\n\nc\n"),
        ("a\n\nb\n\n", "@@ b\n-\n", "a\n\nb\n"),
        (TOTAL, "@@\n     total = sum(itmes)\n-    return total\n+    return 2\n", TOTAL.replace("n total", "n 2")),
        (CLASSES, "@@ class B:\n@@     def f(self):\n-        x\n+        y\n", CLASSES[:-2] + "y\n"),
        ("x\na\ny\na\n", diff("@@ -1 +1 @@\n-x\n+X\n@@ -4 +4 @@\n-a\n+b\n"), "X\na\ny\nb\n"),
        ("old\nnew\n  \nend", "@@\n new\n \n-end\n+END\n", "old\nnew\n  \nEND"),
    ],
)
def test_an_accident_around_a_change_does_not_change_it(text, hunks, after):
    assert applied(text, hunks)[0] == after


@pytest.mark.parametrize(
    ("text", "hunks"),
    [
        ("a\n\nb\n\nc\n", "@@\n \n+x\n"),
        ("a\n\nb\n\nc\n", "@@\n-\n"),
        ("a\n\nb\n\nc\n", diff("@@ -3 +2,0 @@\n-\n")),
        ("a\nb\n", "@@\n-\n"),
        ("a\nb\n", diff("@@ -9,0 +10 @@\n+x\n")),
        ("a\nb\n", diff("@@ -1,2 +1,3 @@\n+x\n")),
        (TWO, "@@ def f():\n-    x = 1\n+    x = 2\n"),
        (CLASSES, "@@     def f(self):\n-        x\n+        y\n"),
        (CLASSES, "@@     def f(self):\n+        y\n"),
        (TOTAL, "@@\n def compute_total(items):\n-    total = sum(itmes)\n+    total = 0\n"),
        ("def read_a():\n    go\n    on\n", "@@\n def read_b():\n     go\n-    on\n+    off\n"),
        ("a\nb\nc\n", "@@\n-b\n+B\n@@\n a\n-b\n+x\n"),
        ("x\n" * 40 + "a\n", diff("@@ -3 +3 @@\n-a\n+b\n")),
        ("a\nb\n" + "x\n" * 30 + "a\nb\n", diff("@@ -4,2 +4,2 @@\n a\n-b\n+c\n")),
    ],
)
def test_a_hunk_that_may_belong_elsewhere_or_nowhere_is_refused(text, hunks):
    with pytest.raises(EditError):
        applied(text, hunks)


@pytest.mark.parametrize(
    "hunks",
    ["@@\n a\n+x\n@@\n a\n+x\n", "@@\n a\n+x\n b\n@@\n a\n+x\n", f"{HEAD}@@\n a\n+x\n{HEAD}@@\n a\n+x\n*** End Patch"],
)
def test_what_is_given_twice_is_done_once_and_told(hunks):
    text, _, slips = applied("a\nb\n", hunks)
    assert (text, slips) == ("a\nx\nb\n", ("repeated",))


def test_lines_that_stay_keep_the_bytes_of_the_file_however_they_were_written():
    text = "one  \n“two”\nthree\n"
    assert applied(text, '@@\n one\n "two"\n-three\n+3\n')[0] == "one  \n“two”\n3\n"


def test_the_lines_that_a_misspelt_context_stands_for_are_not_rewritten():
    text = "use first_thing;\nuse second_thing;\nfn go() {}\n"
    done = applied(text, "@@\n use first_thing;\n-use second_thing;\n+use secnd_thing;\n+use frst;\n fn go() {}\n")
    assert done[0] == "use first_thing;\nuse secnd_thing;\nuse frst;\nfn go() {}\n"


def test_hunks_of_a_file_never_overlap():
    with pytest.raises(EditError, match="Hunk 2 of 2: It changes lines"):
        applied("a\nb\nc\n", "@@\n-a\n-b\n+x\n@@\n-b\n-c\n+y\n")


def test_patches_of_changed_sources_are_right_or_refused_whatever_happens_to_them():
    outcomes = [judged(patch)[0] for patch in patches(list(made_changes(60)), 400, 35)]
    assert set(outcomes) <= {RIGHT, REFUSED}
    assert outcomes.count(RIGHT) > 250


def made_changes(count: int) -> Iterator[Change]:
    """Changes of sources: lines that go, come and change."""
    sources = sorted((Path(__file__).parents[4] / "core").rglob("*.py"))
    chance = random.Random(35)
    for number, source in enumerate(chance.sample(sources, count)):
        old = source.read_text().removesuffix("\n").split("\n")
        places = (
            sorted(chance.sample(range(1, len(old) - 1), min(3, max(0, (len(old) - 2) // 9)))) if len(old) > 40 else []
        )
        new, at, spans = [], 0, []
        for place in places:
            removed_count, come = chance.choice([(1, 1), (2, 1), (0, 2), (1, 0)])
            new += old[at : max(at, place)]
            first = max(at, place)
            fresh = [
                f"{old[first][: len(old[first]) - len(old[first].lstrip())]}fresh_{number}_{step}()"
                for step in range(come)
            ]
            at = min(len(old), first + removed_count)
            spans.append(Span(first, at, len(new), len(new) + come))
            new += fresh
        new += old[at:]
        if spans:
            texts = ("\n".join(rows) + "\n" for rows in (old, new))
            yield Change("core", "", source.name, "python", *texts, tuple(spans))
