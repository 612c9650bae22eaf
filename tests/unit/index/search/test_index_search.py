"""The search over a real index: definitions first, tests behind, pending texts in the place of those on disk."""

from __future__ import annotations

import pytest

from core.index.database import connect_for_reading
from core.index.search.index_search import DEPTH, IndexSearch, SearchRequest
from tests.unit.index.index_content import finish, make_builder

FILES = {
    "shop/till.py": "class Till:\n    def add_tax(self, price):\n        return price * self.rate\n\n"
    "    def close_drawer(self):\n        self.is_open = False\n",
    "shop/mail.py": "def send_receipt(address, total):\n"
    "    '''E-mail the customer what was paid.'''\n    post(address, total)\n",
    "shop/storage.py": "import json\n\n\n"
    "def load_orders(path):\n    with open(path) as stream:\n        return json.load(stream)\n",
    "tests/test_till.py": "def test_add_tax():\n    assert Till().add_tax(1) == 1.2\n    # add_tax add_tax add_tax\n",
    "docs/till.md": "# Till\n\nThe till can add_tax to a price. add_tax is what adds the tax.\n",
    "web/utils.ts": "export function add(a: number, b: number) {\n  return a + b\n}\n",
}


class Project:
    """A project with its index, in which files can be changed."""

    def __init__(self, root, database):
        self.root = root
        self.write(FILES)
        self.builder = make_builder(root, database)
        self.builder.sweep()
        finish(self.builder)
        self.search = IndexSearch(connect_for_reading(database))

    def write(self, files):
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def find(self, text, **request):
        return [place.path for place in self.search.search(SearchRequest(text=text, **request))]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "p").mkdir()
    indexed_project = Project(tmp_path / "p", tmp_path / "index.sqlite")
    yield indexed_project
    indexed_project.builder.close()


def test_of_a_name_the_definition_comes_first(project):
    for name in ("add_tax", "Till.add_tax", "add_tax()"):
        (first, *_) = project.search.search(SearchRequest(text=name))
        assert (first.path, first.start) == ("shop/till.py", 1)
    assert project.find("add")[0] == "web/utils.ts"


def test_a_question_finds_what_does_it_and_not_its_test(project):
    assert project.find("where is a mail sent to the customer?")[0] == "shop/mail.py"
    assert project.find("the tax of a price is wrong")[0] == "shop/till.py"
    assert project.find("which test is about the tax?")[0] == "tests/test_till.py"


def test_the_file_of_a_traceback_is_found(project):
    trace = (
        "It crashes when I start\n\n```\nTraceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/site-packages/shop/storage.py", line 5, in load_orders\n'
        "ValueError: no tax, no price, no till, no receipt for the customer\n```\n" + "and then it ends " * 10
    )
    assert project.find(trace)[0] == "shop/storage.py"


def test_directories_limit_what_is_found(project):
    assert set(project.find("add_tax", directories=("docs", "tests/"))) == {"docs/till.md", "tests/test_till.py"}
    assert project.find("add_tax", directories=("doc",)) == []


def test_a_pending_text_is_found_and_what_it_replaces_is_not(project):
    pending = {"shop/mail.py": "def print_invoice(total):\n    paper.write(total)\n"}
    (first, *_) = project.search.search(SearchRequest(text="print_invoice", pending=pending))
    assert (first.path, first.start, first.end, first.is_changed) == ("shop/mail.py", 1, 2, True)
    assert project.find("send_receipt customer", pending=pending).count("shop/mail.py") <= 1
    assert not [
        place
        for place in project.search.search(SearchRequest(text="send_receipt customer", pending=pending))
        if place.path == "shop/mail.py" and not place.is_changed
    ]
    assert project.find("send_receipt")[0] == "shop/mail.py"
    assert "print_invoice" not in str(project.search.search(SearchRequest(text="print_invoice")))


def test_a_deleted_file_is_not_found(project):
    assert "shop/mail.py" not in project.find("send_receipt", pending={"shop/mail.py": None})


def test_a_pending_text_weighs_what_it_will_weigh_in_the_index(project):
    text = (
        "def refund(order):\n"
        "    '''Give the money of an order back to the customer.'''\n    bank.transfer(order.total)\n"
    )
    question = "give money back to a customer"
    before = project.search.search(SearchRequest(text=question, pending={"shop/refunds.py": text}))
    project.write({"shop/refunds.py": text})
    project.builder.sweep()
    finish(project.builder)
    after = project.search.search(SearchRequest(text=question))
    assert [(place.path, place.start) for place in before] == [(place.path, place.start) for place in after]


def test_what_was_committed_since_is_found_and_the_order_is_always_the_same(project):
    assert project.find("frobnicate_widgets")[:1] != ["new.py"]
    project.write({"new.py": "def frobnicate_widgets():\n    return 1\n"})
    project.builder.sweep()
    finish(project.builder)
    assert project.find("frobnicate_widgets")[0] == "new.py"
    assert len({tuple(project.find("price of the customer")) for _ in range(5)}) == 1


@pytest.mark.parametrize("text", ["", "   ", "?!", '"', "'; drop table files", "a" * 5_000, "NEAR(x y)", "*", "日本語"])
def test_any_text_can_be_asked(project, text):
    assert isinstance(project.find(text), list)
    assert project.find("add_tax")


def test_a_file_that_was_saved_many_times_hides_neither_itself_nor_others(project):
    project.write({"log.md": "zorblax frobnik\n", "web/zorblax.md": "frobnik\n"})
    for number in range(DEPTH + 10):
        project.write({"log.md": f"zorblax frobnik {number}\n"})
        project.builder.update_paths(["log.md"])
        finish(project.builder)
        project.search.search(SearchRequest(text="something else"))
    project.builder.update_paths(["web"])
    finish(project.builder)
    assert set(project.find("zorblax frobnik")[:2]) == {"log.md", "web/zorblax.md"}


def test_words_are_looked_up_before_the_files_that_they_stand_in(project):
    asked = []
    project.search._connection.set_trace_callback(asked.append)
    assert project.find("add the tax of a price", directories=("shop",))
    project.search._connection.set_trace_callback(None)
    (statement,) = [query for query in asked if "bm25" in query]
    plan = project.search._connection.execute(f"explain query plan {statement}").fetchall()
    assert plan[0][3].startswith("SCAN fts VIRTUAL TABLE")
    assert all("SEARCH" in row[3] for row in plan[1:3])
