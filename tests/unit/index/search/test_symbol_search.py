"""Names that are only roughly known: exact ones first, then beginnings, parts, and what is nearly spelled so."""

from __future__ import annotations

import pytest

from core.index.database import connect_for_reading
from core.index.search.index_search import SearchRequest
from core.index.search.symbol_search import SymbolSearch, is_named
from tests.unit.index.index_content import finish, make_builder

CODE = """\
class Till:
    def add_tax(self):
        pass


def add_tax_later():
    pass


def close():
    pass
"""


DJANGO = (
    *("GET", "get", "In", "OR", "Formatter", "filter", "_combinator_query", "get_combinator_sql", "_get_condition_sql"),
    *("DjangoHelpFormatter", "_filter_prefetch_queryset", "filter_queryset", "get_queryset", "get_queryset_for_field"),
    *("queryset", "QuerySet", "close", "clone", "test_change_list_sorting_callable_query_expression", "bulk_create"),
)
"""Names of Django 5.0, and `filter_queryset` of its REST framework."""


@pytest.fixture
def search(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "till.py").write_text(CODE)
    (tmp_path / "p" / "names.py").write_text("".join(f"def {name}():\n    pass\n\n\n" for name in DJANGO))
    builder = make_builder(tmp_path / "p", tmp_path / "index.sqlite")
    builder.sweep()
    finish(builder)
    yield SymbolSearch(connect_for_reading(tmp_path / "index.sqlite"))
    builder.close()


def find(search, text, **request):
    return [place.symbol for place in search.search(SearchRequest(text=text, **request))]


@pytest.mark.parametrize(
    ("text", "first"),
    [("add_tax", "Till.add_tax"), ("ADD_TAX()", "Till.add_tax"), ("Till.add", "Till.add_tax"), ("clsoe", "close")],
)
def test_the_likest_name_comes_first(search, text, first):
    assert find(search, text)[0] == first


def test_what_begins_with_it_comes_next(search):
    assert find(search, "add_tax")[:2] == ["Till.add_tax", "add_tax_later"]


def test_pending_names_count_and_those_they_replace_do_not(search):
    pending = {"till.py": "def open_drawer():\n    pass\n"}
    assert find(search, "open_drawer", pending=pending)[0] == "open_drawer"
    assert "Till.add_tax" not in find(search, "add_tax", pending=pending)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("get_queryset", ["get_queryset", "get_queryset_for_field"]),
        ("QuerySet", ["QuerySet", "queryset", "get_queryset", "filter_queryset"]),
        ("queryset", ["queryset", "QuerySet", "get_queryset", "filter_queryset"]),
        ("get_combinator", ["get_combinator_sql", "_combinator_query"]),
        ("queryset_filter", ["filter_queryset", "_filter_prefetch_queryset"]),
        ("HelpFormatter", ["DjangoHelpFormatter"]),
        ("gcsql", ["get_combinator_sql", "_get_condition_sql"]),
        ("bulkcreate", ["bulk_create"]),
        ("get_qureyset", ["get_queryset"]),
    ],
)
def test_spelled_so_comes_before_beginnings_parts_words_short_forms_and_other_spellings(search, text, found):
    assert find(search, text)[: len(found)] == found


@pytest.mark.parametrize("text", ["get_combinator", "HelpFormatter", "filter_queryset", "make_formatter"])
def test_a_name_that_is_a_part_of_what_was_asked_is_no_answer(search, text):
    assert not {"GET", "get", "In", "OR", "Formatter", "filter", "queryset", "QuerySet"} & set(find(search, text))


@pytest.mark.parametrize(
    ("text", "symbol", "is_so"),
    [
        ("filter", "QuerySet.filter", True),
        ("queryset.FILTER()", "QuerySet.filter", True),
        ("query.QuerySet::filter", "QuerySet.filter", False),
        ("Set.filter", "QuerySet.filter", False),
        ("filt", "QuerySet.filter", False),
        ("", "", False),
    ],
)
def test_a_text_is_the_name_of_a_definition_in_any_case_with_what_it_is_part_of(text, symbol, is_so):
    assert is_named(text, symbol) is is_so


@pytest.mark.parametrize("text", ["", " ", "two words", ".", "()"])
def test_what_is_no_name_finds_nothing(search, text):
    assert find(search, text) == []


@pytest.mark.parametrize(
    ("text", "first"),
    [("till tax", "Till.add_tax"), ("queryset filter", "filter_queryset"), ("bulk create", "bulk_create")],
)
def test_the_words_of_a_name_may_stand_apart(search, text, first):
    symbols = [place.symbol for place in search.search_words(SearchRequest(text=text))]
    assert symbols[0] == first
    assert len(symbols) == len(set(symbols))


def test_a_sentence_is_no_name(search):
    assert search.search_words(SearchRequest(text="where is the tax of a till added")) == []


def test_a_name_that_is_not_english_is_found(search, tmp_path):
    (tmp_path / "p" / "other.py").write_text("class Ärger:\n    pass\n")
    builder = make_builder(tmp_path / "p", tmp_path / "index.sqlite")
    builder.sweep()
    finish(builder)
    builder.close()
    assert find(search, "Ärger")[:1] == find(search, "ärger")[:1] == ["Ärger"]
