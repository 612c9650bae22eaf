"""The static model: texts of one meaning are nearer than others, and text without words has no vector."""

from __future__ import annotations

from core.index.search.vectors import VectorMatrix, embed_texts

FUNCTIONS = (
    "def read_json(path):\n    with open(path) as stream:\n        return json.load(stream)",
    "def send_mail(address, subject, body):\n    server.sendmail(sender, [address], message)",
    "def solve(matrix, vector):\n    return lu_decompose(matrix).back_substitute(vector)",
)


def find(question):
    matrix = VectorMatrix("words256")
    matrix.add(enumerate(embed_texts(FUNCTIONS)))
    (vector,) = embed_texts([question])
    return [number for number, _ in matrix.find_nearest(vector, 1)]


def test_a_question_finds_the_function_that_does_it():
    assert find("load data from a file") == [0]
    assert find("e-mail a user") == [1]
    assert find("linear algebra equations") == [2]


def test_text_without_a_known_word_has_no_vector():
    assert embed_texts(["", "12 34", "qqxzzy", "A" * 100]) == [b"", b"", b"", b""]


def test_a_form_that_is_unknown_is_looked_up_by_its_stem():
    known, unknown = embed_texts(["serializ", "serialize"])
    assert unknown
    assert known in (b"", unknown)
