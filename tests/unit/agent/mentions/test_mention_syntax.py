"""Mentions as they stand in a prompt: which words are, what they name, and what is plainly something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agent.mentions.mention_syntax import MAX_NAMES, find_lines, find_plain_names, mask_code, parse_mentions


def read(prompt, pasted=()):
    return [(mention.text, mention.name, mention.start, mention.end) for mention in parse_mentions(prompt, pasted)]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("fix @utils.ts", ("@utils.ts", "utils.ts", 0, 0)),
        ("see @src/a.py:10-20, please", ("@src/a.py:10-20", "src/a.py", 10, 20)),
        ("@a.py:7.", ("@a.py:7", "a.py", 7, 7)),
        ("@a.py:7:3", ("@a.py:7:3", "a.py", 7, 7)),
        ("(@a.py#L3-L9)", ("@a.py#L3-L9", "a.py", 3, 9)),
        ("@a.py#L3-9", ("@a.py#L3-9", "a.py", 3, 9)),
        ('@"my notes.md":3-4', ('@"my notes.md":3-4', "my notes.md", 3, 4)),
        ('@"my notes.md:3-4"', ('@"my notes.md:3-4"', "my notes.md", 3, 4)),
        ("@Session.save!", ("@Session.save", "Session.save", 0, 0)),
        ("@plan:login", ("@plan:login", "plan:login", 0, 0)),
        ("@diff", ("@diff", "diff", 0, 0)),
        ("@https://a.org/b?c=1#d", ("@https://a.org/b?c=1#d", "https://a.org/b?c=1#d", 0, 0)),
        ("(see @https://a.org/wiki/A_(b), too)", ("@https://a.org/wiki/A_(b)", "https://a.org/wiki/A_(b)", 0, 0)),
        ("@http://a.org:8080.", ("@http://a.org:8080", "http://a.org:8080", 0, 0)),
        ("(@https://a.org/x).", ("@https://a.org/x", "https://a.org/x", 0, 0)),
        ("@https://a.org/@user?q=a,b!", ("@https://a.org/@user?q=a,b", "https://a.org/@user?q=a,b", 0, 0)),
    ],
)
def test_a_mention_names_something_and_lines_of_it(prompt, expected):
    assert read(prompt) == [expected]


@pytest.mark.parametrize(
    "prompt",
    [
        "mail me@a.py", "git@host:a/b.git", "@", "@@x", "use `@property` here", "``@a`b``", "```\n@app.route\n```",
        "~~~py\n@x\n~~~", "a <stdin>\n@media x\n</stdin>", "a.@b", "@'x'", "@#12", "@-1",
    ],
)  # fmt: skip
def test_code_and_addresses_mention_nothing(prompt):
    assert read(prompt) == []


@pytest.mark.parametrize(
    "prompt",
    [
        "add @property to it", "@app.route is slow", "bump @types/node", "@babel/core", '@Component({a: 1})', "@1.2.3",
        "@cached\ndef f(): ...", "    @wraps\n    async def f(): ...", "@Entity\npublic class A {}",
    ],
)  # fmt: skip
def test_decorators_packages_and_versions_are_told_apart_from_names(prompt):
    assert [mention.is_code for mention in parse_mentions(prompt)] == [True]


@pytest.mark.parametrize(
    "prompt", ["@nonexist.py", "@src/utils.ts", "@org/pkg/file.ts", "@alice", "@Foo.bar", "@x.txt"]
)
def test_what_looks_like_a_name_is_meant(prompt):
    assert [mention.is_code for mention in parse_mentions(prompt)] == [False]


@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        ("utils.ts", ""), ("a.ts:", ":"), ("a.ts:1", ":1"), ("a.ts:10-", ":10-"), ("a.ts:10-20", ":10-20"),
        ("a.ts#", "#"), ("a.ts#L", "#L"), ("a.ts#L1-L20", "#L1-L20"), ("a.ts:x", ""), (":1", ""), ("", ""),
        ("rule:", ""), ("session:1", ""), ("plan:", ""),
    ],
)  # fmt: skip
def test_lines_are_told_from_a_name_while_they_are_typed(typed, lines):
    assert find_lines(typed) == lines


def test_nothing_is_mentioned_in_what_was_pasted():
    prompt = "see @a.py\n@b.py\n@c.py"
    assert [name for _, name, _, _ in read(prompt, [(10, 15)])] == ["a.py", "c.py"]


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_./-]{0,20}[A-Za-z0-9_]", fullmatch=True)
LINES = st.tuples(st.integers(1, 9999), st.integers(0, 500))


@given(name=NAMES, lines=LINES, form=st.sampled_from(["{}:{}-{}", "{}#L{}-L{}", "{}#L{}-{}"]))
def test_every_form_of_lines_comes_back_as_it_was_written(name, lines, form):
    start, more = lines
    [mention] = parse_mentions(f"look at @{form.format(name, start, start + more)}, now")
    assert (mention.name, mention.start, mention.end) == (name, start, start + more)


@given(
    name=st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters='"`'), min_size=1, max_size=30)
)
def test_any_name_can_stand_between_quotes(name):
    [mention] = parse_mentions(f'@"{name}" x')
    assert mention.name == name or mention.start


@given(st.text(st.sampled_from("@`~ab./:-#L1\n\"' <>(){}"), max_size=80))
def test_any_text_is_parsed_and_a_mask_keeps_length_and_lines(text):
    masked = mask_code(text)
    assert len(masked) == len(text)
    assert [i for i, character in enumerate(masked) if character == "\n"] == [
        i for i, character in enumerate(text) if character == "\n"
    ]
    for mention in parse_mentions(text):
        assert mention.text in text
        assert mention.text.startswith("@")
        assert mention.name


@given(st.text(st.sampled_from("@ab./:- \n"), max_size=60))
def test_nothing_between_backticks_is_mentioned(text):
    assert parse_mentions(f"```\n{text}\n```") == ()


@pytest.mark.parametrize(
    "piece", ["a", "a/", "x/[", "a.", "aB", "_", "`a", "@a:1", "```\n", "(", "#L1", "/.", "<stdin>\n"]
)
def test_a_long_text_without_blanks_is_read_in_one_go(piece):
    text = piece * 60_000
    assert len(mask_code(text)) == len(text)
    assert len(parse_mentions(text)) <= 1
    assert len(find_plain_names(text).symbols) <= MAX_NAMES


@given(st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60)), max_size=5))
def test_spans_in_any_order_and_beyond_the_text_are_blanked(spans):
    text = "one two\nthree four five six seven eight"
    assert len(mask_code(text, spans)) == len(text)
    assert mask_code(text, spans).count("\n") == 1
