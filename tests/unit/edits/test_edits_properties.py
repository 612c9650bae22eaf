from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.edits.errors import EditError
from core.edits.formats.search_replace import SearchReplaceBlock, apply_blocks, parse_blocks
from core.edits.formats.str_replace import replace_string
from core.edits.matching.ladder import locate
from core.edits.matching.search_text import SearchText
from core.edits.text_file import decode_text
from core.text.lines import apply_splices, split_lines

words = st.text(alphabet="abcdefgh(){}=;,.$\\1 é", min_size=1, max_size=12).filter(str.strip)
unique_lines = st.lists(words, min_size=3, max_size=30, unique_by=str.strip)
endings = st.sampled_from(["\n", "\r\n"])


def place(lines: list[str], data) -> tuple[int, int]:
    start = data.draw(st.integers(0, len(lines) - 1))
    return start, data.draw(st.integers(start + 1, len(lines)))


def replace_lines(text: str, old: str, new: str) -> str:
    return apply_splices(text, locate(SearchText(text), old, new, whole_lines=True).splices)


@given(st.binary(max_size=300))
def test_decoding_and_encoding_is_the_identity(data):
    file = decode_text(data)
    assert file is None or file.encode(file.text) == data


@given(unique_lines, st.data())
def test_an_exact_edit_is_what_replacing_lines_gives(lines, data):
    first, last = place(lines, data)
    fresh = data.draw(st.lists(words, max_size=5))
    text = "".join(f"{line}\n" for line in lines)
    old = "".join(f"{line}\n" for line in lines[first:last])
    new = "".join(f"{line}\n" for line in fresh)
    done = replace_lines(text, old, new)
    assert done == "".join(f"{line}\n" for line in [*lines[:first], *fresh, *lines[last:]])


@given(unique_lines, st.lists(endings, min_size=30, max_size=30), st.booleans(), st.data())
def test_bytes_outside_of_the_edit_never_change(lines, ends, closed, data):
    first, last = place(lines, data)
    rows = [line + end for line, end in zip(lines, ends, strict=False)]
    rows[-1] = rows[-1] if closed else lines[-1]
    old = "".join(f"{line}  \n" for line in lines[first:last])
    new = data.draw(words) + "\n"
    done = replace_lines("".join(rows), old, new)
    assert done.startswith("".join(rows[:first]))
    assert done.endswith("".join(rows[last:]))
    middle = done[len("".join(rows[:first])) : len(done) - len("".join(rows[last:]))]
    written = new[:-1].rstrip()  # white space that the model puts at the ends of lines is no part of what it means
    assert split_lines(middle).bodies in ([new[:-1]], [written], [rows[first].rstrip("\r\n")])


@given(unique_lines, st.integers(1, 3), st.data())
def test_a_block_taken_out_of_its_indentation_is_put_back_into_it(lines, depth, data):
    bare = [line.strip() for line in lines]
    assume(len(set(bare)) == len(bare))
    first, last = place(bare, data)
    indent = data.draw(st.sampled_from(["\t", "  ", "    "])) * depth
    text = "".join(f"{indent}{line}\n" for line in bare)
    old = "".join(f"{line}\n" for line in bare[first:last])
    done = replace_lines(text, old, "fresh\n    deeper\n")
    rows = split_lines(done).bodies
    assert rows[first].startswith(f"{indent}fresh")
    assert rows[:first] + rows[first + 2 :] == [f"{indent}{line}" for line in bare[:first] + bare[last:]]


@given(unique_lines, st.data())
def test_the_order_of_blocks_does_not_matter(lines, data):
    text = "".join(f"{line}\n" for line in lines)
    chosen = data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=5, unique=True))
    blocks = [SearchReplaceBlock(f"{lines[index]}\n", f"new {index}\n") for index in chosen]
    expected = "".join(f"new {i}\n" if i in chosen else f"{line}\n" for i, line in enumerate(lines))
    assert apply_blocks(text, blocks).text == apply_blocks(text, blocks[::-1]).text == expected


@given(st.text(alphabet="-+= SEARCHPL\nax<>", max_size=300))
def test_the_parser_answers_or_refuses(content):
    blocks: tuple[SearchReplaceBlock, ...] | None = None
    with suppress(EditError):
        blocks = parse_blocks(content)
    assert blocks is None or blocks


@given(st.text(alphabet="ab \t\r\n", max_size=60), st.text(alphabet="ab \t\r\n", min_size=1, max_size=20))
def test_any_text_is_replaced_or_refused_without_touching_what_is_around(text, old):
    try:
        done = replace_string(text, old, "NEW")
    except EditError:
        return
    head, _, tail = done.text.partition("NEW")
    assert text.startswith(head.rstrip(" \t"))
    assert text.endswith(tail)


names = st.sampled_from(["alpha", "beta", "gamma", "delta", "alpha_one", "alpha_two"])
functions = st.builds(
    lambda name, number, other: [
        f"def {name}{number}(x):",
        f"    y = x + {number}",
        f"    z = {other}(y)",
        "    return z",
    ],
    names,
    st.integers(1, 12),
    names,
)


@settings(max_examples=300)
@given(st.lists(functions, min_size=1, max_size=6), functions)
def test_a_function_that_is_not_there_is_never_taken_for_one_that_is(present, absent):
    assume(absent not in present)
    text = "".join("\n".join(lines) + "\n\n" for lines in present)
    with pytest.raises(EditError):
        replace_string(text, "\n".join(absent), "NEW")
