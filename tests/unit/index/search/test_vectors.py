"""Vectors as bytes, and the search among them: what is near comes first, whatever the order in which it came."""

from __future__ import annotations

import random

import pytest

from core.index.search.vectors import BLOCK, VectorMatrix, pack_vector


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


def test_more_than_a_block_is_searched_and_equals_come_by_id():
    vector = pack_vector(random_vector("one"))
    matrix = VectorMatrix("m")
    matrix.add((number, vector) for number in range(BLOCK + 3))
    assert [chunk for chunk, _ in matrix.find_nearest(vector, BLOCK + 3)] == list(range(BLOCK + 3))


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
