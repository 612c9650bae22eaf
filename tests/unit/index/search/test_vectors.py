"""Vectors as bytes, and the search among them: what is near comes first, whatever the order in which it came."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path

import pytest

import core.index.search
from core.index.search.vectors import STATIC_MODEL, VectorMatrix, WordTable, compare_vectors, pack_vector


def random_vector(seed, dimensions=32):
    rng = random.Random(seed)
    return [rng.gauss(0, 1) for _ in range(dimensions)]


def test_the_nearest_are_those_that_exact_arithmetic_finds():
    values = {number: random_vector(number) for number in range(400)}
    asked = random_vector("asked")
    matrix = VectorMatrix("m")
    for start in (0, 100, 250):
        matrix.add((n, pack_vector(values[n])) for n in list(values)[start : {0: 100, 100: 250, 250: 400}[start]])

    def cosine(one, other):
        length = sum(a * a for a in one) ** 0.5 * sum(b * b for b in other) ** 0.5
        return sum(a * b for a, b in zip(one, other, strict=True)) / length

    exact = sorted(values, key=lambda n: -cosine(values[n], asked))[:20]
    neighbors = matrix.find_nearest(pack_vector(asked), 20)
    assert len(set(exact) & {chunk for chunk, _ in neighbors}) >= 19
    assert neighbors[0][1] == pytest.approx(cosine(values[neighbors[0][0]], asked), abs=0.02)


def test_equals_come_by_id_however_many_there_are():
    vector = pack_vector(random_vector("one"))
    matrix = VectorMatrix("m")
    matrix.add((number, vector) for number in range(3_000))
    assert [chunk for chunk, _ in matrix.find_nearest(vector, 3_000)] == list(range(3_000))
    assert [score for _, score in matrix.find_nearest(vector, 5)] == [pytest.approx(1, abs=0.01)] * 5


@pytest.mark.parametrize("dimensions", [8, 33, 256])
def test_the_nearest_of_many_are_among_those_that_are_compared_exactly(dimensions):
    vectors = {number: pack_vector(random_vector(number, dimensions)) for number in range(4_000)}
    matrix = VectorMatrix("m")
    matrix.add(vectors.items())
    hits = 0
    for number in range(5):
        question = pack_vector(random_vector(f"question {number}", dimensions))
        exact = sorted(vectors, key=lambda n: -compare_vectors(vectors[n], question))[:10]
        hits += len({chunk for chunk, _ in matrix.find_nearest(question, 10)} & set(exact))
        allowed = [n for n in vectors if n % 2]
        odd = sorted(allowed, key=lambda n: -compare_vectors(vectors[n], question))[:10]
        assert len({chunk for chunk, _ in matrix.find_nearest(question, 10, allowed)} & set(odd)) >= 8
    assert hits >= 45


def test_the_sum_of_words_is_that_of_plain_arithmetic():
    path = Path(core.index.search.__file__).parent / f"{STATIC_MODEL}.npy"
    data = path.read_bytes()
    start, rows = 10 + int.from_bytes(data[8:10], "little"), [0, 47_999, 5, 5, 5, 20_000]
    totals = [0.0] * 256
    for row in rows:
        weight, *values = struct.unpack_from("<e256b", data, start + row * 258)
        totals = [total + weight * value for total, value in zip(totals, values, strict=True)]
    assert compare_vectors(WordTable(path).sum_rows(rows), pack_vector(totals)) == pytest.approx(1, abs=1e-4)
    assert WordTable(path).sum_rows([]) == b""


def test_a_packed_vector_has_the_direction_and_the_length_one():
    values = random_vector("any")
    vector, opposite = pack_vector(values), pack_vector([-value for value in values])
    scale, *numbers = struct.unpack("<f32b", vector)
    assert math.hypot(*(scale * number for number in numbers)) == pytest.approx(1, abs=0.01)
    assert compare_vectors(vector, opposite) == pytest.approx(-1, abs=0.001)


@pytest.mark.parametrize("values", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_what_has_no_direction_has_no_vector(values):
    assert pack_vector(values) == b""


def test_vectors_of_another_size_and_empty_ones_are_left_out():
    matrix = VectorMatrix("m")
    matrix.add([(1, b""), (2, pack_vector([1, 0, 0])), (3, pack_vector([1, 0]))])
    assert [chunk for chunk, _ in matrix.find_nearest(pack_vector([1, 1, 0]), 5)] == [2]
    assert matrix.find_nearest(b"", 5) == []
    assert matrix.find_nearest(pack_vector([1, 0]), 5) == []
    assert VectorMatrix("m").find_nearest(pack_vector([1, 0]), 5) == []


def test_what_is_let_go_or_not_asked_for_is_not_found():
    matrix = VectorMatrix("m")
    matrix.add((chunk, pack_vector([1, chunk])) for chunk in range(1, 9))
    asked = pack_vector([1, 1])
    assert [chunk for chunk, _ in matrix.find_nearest(asked, 2, [8, 2, 3, 99])] == [2, 3]
    matrix.retain([3, 5, 99])
    assert (len(matrix), [chunk for chunk, _ in matrix.find_nearest(asked, 5)]) == (2, [3, 5])
    matrix.add([(9, pack_vector([1, 1]))])
    assert [chunk for chunk, _ in matrix.find_nearest(asked, 5)] == [9, 3, 5]
    matrix.retain([])
    assert matrix.find_nearest(asked, 5) == []
