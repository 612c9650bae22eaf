from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from core.index.chunks import MAX_CHUNK, cut_file

METHOD = "    def {}(self):\n" + '        """Do what its name says."""\n' + "        return 1\n" * 60 + "\n"


def cut(path, text):
    return cut_file(path, text).chunks


def test_small_neighbours_are_one_chunk_that_knows_what_it_defines():
    (chunk,) = cut("a.py", "import os\n\n\ndef first():\n    return 1\n\n\ndef second():\n    return 2\n")
    assert (chunk.start, chunk.end, chunk.symbol, chunk.defines) == (1, 9, "first", ("first", "second"))
    assert chunk.text.endswith("return 2")


def test_a_long_class_is_cut_at_its_methods():
    chunks = cut("a.py", "class Basket:\n" + METHOD.format("add") + METHOD.format("total"))
    assert [(chunk.symbol, chunk.kind, chunk.defines) for chunk in chunks] == [
        ("Basket", "class", ("Basket",)),
        ("Basket.add", "method", ("add",)),
        ("Basket.total", "method", ("total",)),
    ]


def test_a_long_function_is_cut_at_blank_lines_and_its_parts_know_it():
    body = ("    step = 1\n" * 40 + "\n") * 6
    chunks = cut("a.py", f"def work():\n{body}")
    assert [code_chunk.part for code_chunk in chunks] == list(range(len(chunks)))
    assert {code_chunk.symbol for code_chunk in chunks} == {"work"}
    assert [code_chunk.defines for code_chunk in chunks] == [("work",), *[()] * (len(chunks) - 1)]
    assert all(len(code_chunk.text) <= MAX_CHUNK for code_chunk in chunks)
    assert all(chunk.start == before.end + 2 for before, chunk in pairwise(chunks))


def test_a_comment_goes_with_the_definition_below_it():
    filler = "func Other() {\n" + "\tstep()\n" * 120 + "}\n"
    chunks = cut("a.go", f"package a\n\n{filler}\n// Add sums two numbers.\nfunc Add(a int) int {{\n\treturn a\n}}\n")
    assert chunks[-1].text.startswith("// Add sums")
    assert chunks[-1].symbol == "Add"


def test_text_without_definitions_is_cut_at_blank_lines():
    paragraph = "Some words about nothing.\n" * 20
    chunks = cut("notes.md", f"{paragraph}\n{paragraph}\n{paragraph}\n{paragraph}")
    assert [(chunk.symbol, chunk.defines) for chunk in chunks] == [("", ())] * len(chunks)
    assert [(chunk.start, chunk.end, chunk.part) for chunk in chunks] == [(1, 62, 0), (64, 83, 1)]


def test_a_single_line_is_never_cut():
    (chunk,) = cut("data.txt", "x" * 5_000)
    assert (chunk.start, chunk.end, len(chunk.text)) == (1, 1, 5_000)


def test_blank_text_has_no_chunks():
    assert cut("a.py", "\n\n  \n") == ()


def test_line_ends_of_windows_count_as_one():
    (chunk,) = cut("a.py", "def f():\r\n    return 1\r\n")
    assert (chunk.start, chunk.end, chunk.text) == (1, 2, "def f():\n    return 1")


SOURCE = st.lists(
    st.sampled_from(
        [
            "def f():",
            "class A:",
            "    def g(self):",
            "        x = 1",
            "",
            "  ",
            "# a comment",
            "@wraps",
            "y = '''",
            "(",
            "}",
        ]
    ),
    max_size=300,
)


@given(SOURCE, st.sampled_from(["a.py", "a.js", "a.txt", "a.go", "a.rb"]))
def test_every_line_that_is_not_blank_is_in_exactly_one_chunk(lines, path):
    covered = [line for chunk in cut(path, "\n".join(lines)) for line in range(chunk.start, chunk.end + 1)]
    assert covered == sorted(set(covered))
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= set(covered)


@given(st.text(max_size=300), st.sampled_from(["a.py", "a.ts", "a.txt", "a.css"]))
def test_any_text_can_be_cut(text, path):
    file = cut_file(path, text)
    assert all(chunk.text == "\n".join(file.lines[chunk.start - 1 : chunk.end]) for chunk in file.chunks)


def test_definitions_that_stand_in_each_other_without_end_are_cut_all_the_same():
    text = "function f(){\n" * 5_000 + "}\n" * 5_000
    chunks = cut_file("a.js", text).chunks
    assert {line for chunk in chunks for line in range(chunk.start, chunk.end + 1)} == set(range(1, 10_001))
