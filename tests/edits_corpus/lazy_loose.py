"""Lazy edits as models miswrite them."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

SHOP = """import json
import logging

log = logging.getLogger(__name__)


def load(path):
    with open(path) as file:
        return json.load(file)


def save(path, data):
    with open(path, "w") as file:
        json.dump(data, file)


def clear(path):
    save(path, {})


class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        log.info("add")
        self.items.append(item)

    def total(self):
        return sum(item.price for item in self.items)
"""
WIDGET = """import { api } from "./api";

export class Widget {
  private id = 0;

  open(): void {
    this.id += 1;
    api.open(this.id);
  }

  close(): void {
    api.close(this.id);
  }

  get label(): string {
    return `widget ${this.id}`;
  }
}

function helper(n: number) {
  return n * 2;
}

export const twice = helper;
"""
PROPS = """class Box:
    def __init__(self, size):
        self._size = size

    @property
    def size(self):
        return self._size

    @property
    def area(self):
        return self._size ** 2
"""
H = "# ... existing code ...\n"
J = "// ... existing code ...\n"
ADD = '        log.info("add")\n        self.items.append(item)\n'
CASES: list[Row] = [
    (
        "loose, a fence",
        "shop.py",
        SHOP,
        f"```python\n{H}\ndef clear(path):\n    save(path, [])\n\n\n{H}```",
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, a fence with the path",
        "shop.py",
        SHOP,
        f"```python:shop.py\n{H}\ndef clear(path):\n    save(path, [])\n\n\n{H}```\n",
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, the path as a comment on top",
        "src/widget.ts",
        WIDGET,
        f"// src/widget.ts\n{J}\n  close(): void {{\n    api.close(this.id);\n    this.id = 0;\n  }}\n\n{J}",
        swap(WIDGET, "    api.close(this.id);\n", "    api.close(this.id);\n    this.id = 0;\n"),
    ),
    (
        "loose, the path as a comment with a word",
        "src/widget.ts",
        WIDGET,
        f"// filepath: src/widget.ts\n{J}\nfunction helper(n: number) {{\n  return n * 3;\n}}\n\n{J}",
        swap(WIDGET, "n * 2", "n * 3"),
    ),
    (
        "loose, the marker of another language",
        "shop.py",
        SHOP,
        f"{J}\ndef clear(path):\n    save(path, [])\n\n\n{J}",
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, a marker without a comment",
        "widget.ts",
        WIDGET,
        "... existing code ...\n\nfunction helper(n: number) {\n  return n * 3;\n}\n\n... existing code ...\n",
        swap(WIDGET, "n * 2", "n * 3"),
    ),
    (
        "loose, bodies in one line",
        "widget.ts",
        WIDGET,
        f"{J}\nexport class Widget {{\n  {J}\n  open(): void {{ /* ... existing code ... */ }}\n\n  reset(): void {{\n    this.id = 0;\n  }}\n\n  close(): void {{ /* ... existing code ... */ }}\n\n  {J}}}\n\n{J}",
        swap(WIDGET, "  close(): void {", "  reset(): void {\n    this.id = 0;\n  }\n\n  close(): void {"),
    ),
    (
        "loose, a body of dots",
        "widget.ts",
        WIDGET,
        f"{J}\nexport class Widget {{\n  {J}\n  close(): void {{ ... }}\n\n  reset(): void {{\n    this.id = 0;\n  }}\n\n  {J}}}\n\n{J}",
        swap(
            WIDGET,
            "    api.close(this.id);\n  }\n",
            "    api.close(this.id);\n  }\n\n  reset(): void {\n    this.id = 0;\n  }\n",
        ),
    ),
    (
        "loose, a marker behind the brace",
        "widget.ts",
        WIDGET,
        f"export class Widget {{ // ... existing code ...\n  close(): void {{\n    api.close(this.id, true);\n  }}\n  {J}}}\n{J}",
        swap(WIDGET, "api.close(this.id)", "api.close(this.id, true)"),
    ),
    (
        "loose, a body of three dots in Python",
        "shop.py",
        SHOP,
        f"{H}\nclass Cart:\n    def __init__(self): ...\n\n    def add(self, item):\n        self.items.append(item)\n\n    def total(self): ...\n",
        swap(SHOP, '        log.info("add")\n', ""),
    ),
    (
        "loose, a body of three dots on its line",
        "shop.py",
        SHOP,
        f"{H}\nclass Cart:\n    def __init__(self):\n        ...\n\n    def add(self, item):\n        self.items.append(item)\n\n    def total(self):\n        ...\n",
        swap(SHOP, '        log.info("add")\n', ""),
    ),
    (
        "loose, a marker behind a colon",
        "shop.py",
        SHOP,
        f"{H}\nclass Cart:  # ... existing code ...\n    def add(self, item):\n        self.items.append(item)\n    {H}",
        swap(SHOP, '        log.info("add")\n', ""),
    ),
    (
        "loose, markers at the margin",
        "shop.py",
        SHOP,
        f"{H}\nclass Cart:\n{H}\n    def add(self, item):\n        self.items.append(item)\n\n{H}",
        swap(SHOP, '        log.info("add")\n', ""),
    ),
    (
        "loose, all of it four spaces deeper",
        "shop.py",
        SHOP,
        f"    {H}\n    def clear(path):\n        save(path, [])\n\n    {H}",
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, a method at the margin with markers",
        "shop.py",
        SHOP,
        f"{H}\ndef add(self, item):\n    self.items.append(item)\n\n{H}",
        swap(SHOP, '        log.info("add")\n', ""),
    ),
    (
        "loose, two spaces for four",
        "shop.py",
        SHOP,
        f"{H}\nclass Cart:\n  {H}\n  def total(self):\n    if not self.items:\n      return 0\n    return sum(item.price for item in self.items)\n",
        swap(SHOP, "        return sum(", "        if not self.items:\n            return 0\n        return sum("),
    ),
    (
        "loose, tabs for spaces",
        "widget.ts",
        WIDGET,
        f"{J}\nexport class Widget {{\n\t{J}\n\tclose(): void {{\n\t\tif (this.id) {{\n\t\t\tapi.close(this.id);\n\t\t}}\n\t}}\n\n\t{J}}}\n\n{J}",
        swap(WIDGET, "    api.close(this.id);\n", "    if (this.id) {\n      api.close(this.id);\n    }\n"),
    ),
    (
        "loose, CRLF in the edit alone",
        "shop.py",
        SHOP,
        f"{H}\ndef clear(path):\n    save(path, [])\n\n\n{H}".replace("\n", "\r\n"),
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, spaces behind lines",
        "shop.py",
        SHOP,
        f"{H}\ndef clear(path):   \n    save(path, {{}})\n    log.info(path)\n\n\n{H}",
        swap(SHOP, "    save(path, {})\n", "    save(path, {})\n    log.info(path)\n"),
    ),
    (
        "loose, two functions that are neighbours and no marker",
        "shop.py",
        SHOP,
        'def save(path, data):\n    with open(path, "w") as file:\n        json.dump(data, file, indent=2)\n\n\ndef clear(path):\n    save(path, [])\n',
        swap(swap(SHOP, "json.dump(data, file)", "json.dump(data, file, indent=2)"), "{}", "[]"),
    ),
    (
        "loose, a function and a new one after it and no marker",
        "shop.py",
        SHOP,
        "def clear(path):\n    save(path, {})\n\n\ndef reset(path):\n    clear(path)\n",
        None,
    ),
    (
        "loose, no marker at the end after the imports",
        "shop.py",
        SHOP,
        "import json\nimport logging\nimport sys\n\nlog = logging.getLogger(__name__)\n\n# ... existing functions ...\n\nclass Cart:\n    def __init__(self):\n        self.items = {}\n",
        None,
    ),
    (
        "loose, a setter",
        "box.py",
        PROPS,
        f"{H}\n    @size.setter\n    def size(self, value):\n        self._size = value\n\n    @property\n    def area(self):\n        {H}",
        swap(
            PROPS,
            "    @property\n    def area",
            "    @size.setter\n    def size(self, value):\n        self._size = value\n\n    @property\n    def area",
        ),
    ),
    (
        "loose, a getter changed",
        "widget.ts",
        WIDGET,
        f"{J}\n  get label(): string {{\n    return `w${{this.id}}`;\n  }}\n}}\n\n{J}",
        swap(WIDGET, "`widget ${this.id}`", "`w${this.id}`"),
    ),
    (
        "loose, a marker and its words in capitals",
        "shop.py",
        SHOP,
        "# ... EXISTING CODE ...\n\ndef clear(path):\n    save(path, [])\n\n\n# ... REST OF FILE ...\n",
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, two markers in a row",
        "shop.py",
        SHOP,
        f"{H}{H}\ndef clear(path):\n    save(path, [])\n\n\n{H}\n{H}",
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, a marker that says where",
        "shop.py",
        SHOP,
        "# ... existing code above ...\n\ndef clear(path):\n    save(path, [])\n\n\n# ... existing code below ...\n",
        swap(SHOP, "{}", "[]"),
    ),
    (
        "loose, comments on what changed",
        "shop.py",
        SHOP,
        f"{H}\ndef clear(path):\n    save(path, [])  # changed\n\n\n{H}",
        swap(SHOP, "save(path, {})", "save(path, [])  # changed"),
    ),
    (
        "loose, an edit of a marker in a string",
        "m.py",
        'MARK = "... existing code ..."\nx = 1\n',
        f"{H}x = 2\n",
        'MARK = "... existing code ..."\nx = 2\n',
    ),
    (
        "loose, only new imports and a marker in a file without imports",
        "m.py",
        "x = 1\n",
        f"import os\n\n{H}",
        None,
    ),
]
