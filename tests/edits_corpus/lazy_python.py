"""Lazy edits of Python classes."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

STORE = '''import os
from typing import Optional

DEFAULT_LIMIT = 10


class UserStore:
    """Keeps users."""

    table = "users"

    def __init__(self, db):
        self.db = db
        self.cache = {}

    def get(self, user_id):
        if user_id in self.cache:
            return self.cache[user_id]
        row = self.db.find(self.table, user_id)
        self.cache[user_id] = row
        return row

    def save(self, user):
        self.db.put(self.table, user)
        self.cache[user["id"]] = user

    @staticmethod
    def normalize(name):
        return name.strip().lower()


class GroupStore:
    """Keeps groups."""

    def __init__(self, db):
        self.db = db

    def get(self, group_id):
        return self.db.find("groups", group_id)


def connect(url: Optional[str] = None):
    return os.environ.get("URL", url)
'''
SAVE = """    def save(self, user):
        self.db.put(self.table, user)
        self.cache[user["id"]] = user
"""
CHECKED = """    def save(self, user):
        if "id" not in user:
            raise KeyError("id")
        self.db.put(self.table, user)
        self.cache[user["id"]] = user
"""
DELETE = """    def delete(self, user_id):
        self.db.drop(self.table, user_id)
        self.cache.pop(user_id, None)
"""
MARK = "# ... existing code ...\n"

CASES: list[Row] = [
    (
        "py, a method in the middle of a class",
        "store.py",
        STORE,
        f"{MARK}\nclass UserStore:\n    {MARK}\n{CHECKED}\n    {MARK}\n{MARK}",
        swap(STORE, SAVE, CHECKED),
    ),
    (
        "py, a method in the middle, the class alone in the edit",
        "store.py",
        STORE,
        f"class UserStore:\n    {MARK}\n{CHECKED}\n    {MARK}",
        swap(STORE, SAVE, CHECKED),
    ),
    (
        "py, a method at the end of the first class",
        "store.py",
        STORE,
        f"{MARK}\nclass UserStore:\n    {MARK}\n{DELETE}\n\n{MARK}",
        swap(STORE, ".lower()\n", ".lower()\n\n" + DELETE),
    ),
    (
        "py, a method at the end of the first class and nothing after it",
        "store.py",
        STORE,
        f"class UserStore:\n    {MARK}\n{DELETE}",
        swap(STORE, ".lower()\n", ".lower()\n\n" + DELETE),
    ),
    (
        "py, a field after another",
        "store.py",
        STORE,
        f'{MARK}\nclass UserStore:\n    """Keeps users."""\n\n    table = "users"\n    limit = 5\n\n    {MARK}\n{MARK}',
        swap(STORE, '    table = "users"\n', '    table = "users"\n    limit = 5\n'),
    ),
    (
        "py, a method between two",
        "store.py",
        STORE,
        f"{MARK}\nclass UserStore:\n    {MARK}\n    def get(self, user_id):\n        {MARK}\n{DELETE}\n"
        f"    def save(self, user):\n        {MARK}\n    {MARK}\n{MARK}",
        swap(STORE, SAVE, DELETE + "\n" + SAVE),
    ),
    (
        "py, one of two methods of the same name",
        "store.py",
        STORE,
        f'{MARK}\nclass GroupStore:\n    {MARK}\n    def get(self, group_id):\n        return self.db.find("groups", int(group_id))\n\n{MARK}',
        swap(STORE, '"groups", group_id', '"groups", int(group_id)'),
    ),
    (
        "py, the first of two methods of the same name",
        "store.py",
        STORE,
        f"{MARK}\nclass UserStore:\n    {MARK}\n    def get(self, user_id):\n        return self.db.find(self.table, user_id)\n\n    {MARK}\n{MARK}",
        swap(
            STORE,
            "        if user_id in self.cache:\n            return self.cache[user_id]\n        row = self.db.find(self.table, user_id)\n"
            "        self.cache[user_id] = row\n        return row\n",
            "        return self.db.find(self.table, user_id)\n",
        ),
    ),
    (
        "py, a method whose whole signature only one class has",
        "store.py",
        STORE,
        '    def get(self, group_id):\n        return self.db.find("groups", int(group_id))\n',
        swap(STORE, '"groups", group_id', '"groups", int(group_id)'),
    ),
    (
        "py, a method that two classes have alike",
        "store.py",
        STORE,
        "    def __init__(self, db):\n        self.db = db\n        self.log = []\n",
        None,
    ),
    (
        "py, two methods and a function",
        "store.py",
        STORE,
        f"{MARK}\nclass UserStore:\n    {MARK}\n{CHECKED}\n    @staticmethod\n    def normalize(name):\n        return name.strip().casefold()\n\n\n"
        f'{MARK}\n\ndef connect(url: Optional[str] = None):\n    return url or os.environ["URL"]\n',
        swap(
            swap(swap(STORE, SAVE, CHECKED), "lower()", "casefold()"),
            'os.environ.get("URL", url)',
            'url or os.environ["URL"]',
        ),
    ),
    (
        "py, an import on top",
        "store.py",
        STORE,
        f"import json\nimport os\nfrom typing import Optional\n\n{MARK}",
        "import json\n" + STORE,
    ),
    (
        "py, an import that was not there and nothing that was",
        "store.py",
        STORE,
        f"import json\n{MARK}",
        None,
    ),
    (
        "py, an import and a function far below",
        "store.py",
        STORE,
        f'import json\nimport os\nfrom typing import Optional\n{MARK}\ndef connect(url: Optional[str] = None):\n    return json.loads(os.environ["URL"])\n',
        "import json\n" + swap(STORE, 'os.environ.get("URL", url)', 'json.loads(os.environ["URL"])'),
    ),
    (
        "py, a method left out between two that are kept",
        "store.py",
        STORE,
        f"{MARK}\nclass UserStore:\n    {MARK}\n    def get(self, user_id):\n        {MARK}\n    @staticmethod\n    def normalize(name):\n        {MARK}\n{MARK}",
        None,
    ),
    (
        "py, a decorator before a method",
        "store.py",
        STORE,
        f"{MARK}\nclass GroupStore:\n    {MARK}\n    @functools.cache\n    def get(self, group_id):\n        {MARK}\n{MARK}",
        swap(STORE, "    def get(self, group_id)", "    @functools.cache\n    def get(self, group_id)"),
    ),
    (
        "py, a doc string in a function",
        "store.py",
        STORE,
        f'{MARK}\ndef connect(url: Optional[str] = None):\n    """Say where the database is."""\n    {MARK}',
        swap(STORE, '    return os.environ.get("', '    """Say where the database is."""\n    return os.environ.get("'),
    ),
    (
        "py, a changed signature",
        "store.py",
        STORE,
        f"{MARK}\nclass UserStore:\n    {MARK}\n    def save(self, user, *, flush=False):\n        self.db.put(self.table, user)\n        if flush:\n            self.db.flush()\n"
        f'        self.cache[user["id"]] = user\n\n    {MARK}\n{MARK}',
        swap(
            swap(STORE, "def save(self, user)", "def save(self, user, *, flush=False)"),
            "self.db.put(self.table, user)\n",
            "self.db.put(self.table, user)\n        if flush:\n            self.db.flush()\n",
        ),
    ),
    (
        "py, a method at the margin",
        "store.py",
        STORE,
        'def save(self, user):\n    if "id" not in user:\n        raise KeyError("id")\n    self.db.put(self.table, user)\n    self.cache[user["id"]] = user\n',
        swap(STORE, SAVE, CHECKED),
    ),
    (
        "py, CRLF",
        "store.py",
        STORE.replace("\n", "\r\n"),
        f"{MARK}\nclass UserStore:\n    {MARK}\n{CHECKED}\n    {MARK}\n{MARK}",
        swap(STORE, SAVE, CHECKED).replace("\n", "\r\n"),
    ),
    (
        "py, a marker that asks to keep",
        "store.py",
        STORE,
        "# ... keep existing imports ...\n\nDEFAULT_LIMIT = 50\n\n\n# ... keep the classes as they are ...\n\ndef connect(url: Optional[str] = None):\n    # ... keep existing code ...\n",
        swap(STORE, "LIMIT = 10", "LIMIT = 50"),
    ),
]
