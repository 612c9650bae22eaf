"""A question is read for its words, names and paths, and for the way in which it wants to be ranked."""

from __future__ import annotations

import pytest

from core.index.search.query import MAX_TEXT, parse_query


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("load_orders", "name"),
        ("Session.resume()", "name"),
        ("std::vector", "name"),
        ("how is a session resumed", "short"),
        ("It fails " * 20, "long"),
    ],
)
def test_the_shape_tells_how_it_is_ranked(text, shape):
    assert parse_query(text).shape == shape


def test_names_are_what_is_written_as_in_code():
    question = parse_query("The Parser of `till` fails in Session.resume when load_orders(x) is called by HTTPClient")
    assert set(question.names) == {"till", "Session.resume", "resume", "load_orders", "HTTPClient"}


def test_a_plain_word_alone_is_a_name():
    assert parse_query("add").names == {"add": 1.0}


def test_names_of_the_first_line_weigh_more():
    names = parse_query("load_orders fails\n\nit was called by close_till").names
    assert names["load_orders"] > names["close_till"]


def test_headers_of_templates_and_comments_are_not_what_is_asked():
    text = "<!-- please search first -->\n### Describe the bug\n\nThe till stays open\n\nhttps://example.org/a/b"
    question = parse_query(text)
    assert question.first == "The till stays open"
    assert "http" not in question.words
    assert "search" not in question.words


def test_files_and_modules_that_are_mentioned_are_paths():
    paths = parse_query('in shop/till.py and shop.mail, File "/usr/lib/x/storage.py", line 3').paths
    assert {"shop/till.py", "shop/mail", "usr/lib/x/storage.py"} <= set(paths)


def test_a_kind_of_place_that_is_asked_for_is_wanted():
    assert parse_query("which tests cover the till").wanted == {"tests"}
    assert parse_query("how is the till closed").wanted == frozenset()


@pytest.mark.parametrize("piece", ["<!--", "./", "a/.", "a.", "http:", "#"])
def test_a_text_of_many_beginnings_without_an_end_is_read_in_one_go(piece):
    assert parse_query(f"<!-- not this --> parse {piece * MAX_TEXT}").words[0] == "pars"
