"""Lazy edits of classes, routes and tests, written when the others passed."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

CALC = """class Calculator {
    constructor() {
        this.result = 0;
    }

    add(number) {
        this.result += number;
        return this;
    }

    subtract(number) {
        this.result -= number;
        return this;
    }

    multiply(number) {
        this.result *= number;
        return this;
    }

    divide(number) {
        if (number === 0) {
            throw new Error("Cannot divide by zero");
        }
        this.result /= number;
        return this;
    }

    getResult() {
        return this.result;
    }
}
"""
FASTAPI = """from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

app = FastAPI()


class Item(BaseModel):
    name: str
    price: float


items = {}


@app.get("/items/{item_id}")
def read_item(item_id: int):
    if item_id not in items:
        raise HTTPException(status_code=404)
    return items[item_id]


@app.post("/items/")
def create_item(item: Item):
    item_id = len(items) + 1
    items[item_id] = item
    return {"id": item_id}


@app.delete("/items/{item_id}")
def delete_item(item_id: int):
    del items[item_id]
    return {"ok": True}
"""
TESTS = """import { add, sub } from "./math";

describe("add", () => {
  it("adds", () => {
    expect(add(1, 2)).toBe(3);
  });

  it("adds zero", () => {
    expect(add(1, 0)).toBe(1);
  });
});

describe("sub", () => {
  it("subtracts", () => {
    expect(sub(3, 2)).toBe(1);
  });
});
"""
PYTEST = """import pytest

from shop import price


@pytest.fixture
def cart():
    return []


def test_empty(cart):
    assert price(cart) == 0


def test_one(cart):
    cart.append(3)
    assert price(cart) == 3
"""
J = "// ... existing code ...\n"
P = "# ... existing code ...\n"

CASES: list[Row] = [
    (
        "further, doc comments on two methods",
        "calc.js",
        CALC,
        f"class Calculator {{\n    {J}\n    /**\n     * Adds a number.\n     */\n    add(number) {{\n        {J}    }}\n\n    {J}\n    /**\n     * Says the result.\n     */\n    getResult() {{\n        {J}    }}\n}}\n",
        swap(
            swap(CALC, "    add(", "    /**\n     * Adds a number.\n     */\n    add("),
            "    getResult(",
            "    /**\n     * Says the result.\n     */\n    getResult(",
        ),
    ),
    (
        "further, comments on three methods that are whole",
        "calc.js",
        CALC,
        f"{J}\n    // Adds.\n    add(number) {{\n        this.result += number;\n        return this;\n    }}\n\n    // Subtracts.\n    subtract(number) {{\n        this.result -= number;\n        return this;\n    }}\n\n    // Multiplies.\n    multiply(number) {{\n        this.result *= number;\n        return this;\n    }}\n\n{J}",
        swap(
            swap(swap(CALC, "    add(", "    // Adds.\n    add("), "    subtract(", "    // Subtracts.\n    subtract("),
            "    multiply(",
            "    // Multiplies.\n    multiply(",
        ),
    ),
    (
        "further, a method after the last",
        "calc.js",
        CALC,
        f"class Calculator {{\n    {J}\n    getResult() {{\n        return this.result;\n    }}\n\n    power(exponent) {{\n        this.result **= exponent;\n        return this;\n    }}\n}}\n",
        swap(
            CALC,
            "        return this.result;\n    }\n",
            "        return this.result;\n    }\n\n    power(exponent) {\n        this.result **= exponent;\n        return this;\n    }\n",
        ),
    ),
    (
        "further, a static method after the constructor",
        "calc.js",
        CALC,
        f"class Calculator {{\n    constructor() {{\n        this.result = 0;\n    }}\n\n    static of(number) {{\n        return new Calculator().add(number);\n    }}\n\n    {J}}}\n",
        swap(
            CALC,
            "this.result = 0;\n    }\n",
            "this.result = 0;\n    }\n\n    static of(number) {\n        return new Calculator().add(number);\n    }\n",
        ),
    ),
    (
        "further, a check in the middle of a method",
        "calc.js",
        CALC,
        f"{J}    divide(number) {{\n        {J}        if (Number.isNaN(number)) {{\n            throw new TypeError();\n        }}\n        this.result /= number;\n        return this;\n    }}\n{J}",
        swap(
            CALC,
            "        this.result /= number;",
            "        if (Number.isNaN(number)) {\n            throw new TypeError();\n        }\n        this.result /= number;",
        ),
    ),
    (
        "further, the message of an error",
        "calc.js",
        CALC,
        f'{J}    divide(number) {{\n        if (number === 0) {{\n            throw new RangeError("zero");\n        }}\n        {J}    }}\n\n    {J}}}\n',
        swap(CALC, 'Error("Cannot divide by zero")', 'RangeError("zero")'),
    ),
    (
        "further, two methods without markers in between are neighbours",
        "calc.js",
        CALC,
        f"{J}    subtract(n) {{\n        this.result -= n;\n        return this;\n    }}\n\n    multiply(n) {{\n        this.result *= n;\n        return this;\n    }}\n{J}",
        swap(
            swap(
                swap(swap(CALC, "subtract(number)", "subtract(n)"), "-= number", "-= n"),
                "multiply(number)",
                "multiply(n)",
            ),
            "*= number",
            "*= n",
        ),
    ),
    (
        "further, the whole class with more in it and no marker",
        "calc.js",
        CALC,
        CALC.replace("return this;", "return this; // chained"),
        CALC.replace("return this;", "return this; // chained"),
    ),
    (
        "further, a class with one method of six and no marker",
        "calc.js",
        CALC,
        "class Calculator {\n    power(n) {\n        this.result **= n;\n        return this;\n    }\n}\n",
        None,
    ),
    (
        "further, a route",
        "main.py",
        FASTAPI,
        f'{P}\n@app.put("/items/{{item_id}}")\ndef update_item(item_id: int, item: Item):\n    items[item_id] = item\n    return item\n\n\n@app.delete("/items/{{item_id}}")\ndef delete_item(item_id: int):\n    {P}',
        swap(
            FASTAPI,
            "@app.delete",
            '@app.put("/items/{item_id}")\ndef update_item(item_id: int, item: Item):\n    items[item_id] = item\n    return item\n\n\n@app.delete',
        ),
    ),
    (
        "further, a field of a model and its use",
        "main.py",
        FASTAPI,
        f"{P}\nclass Item(BaseModel):\n    name: str\n    price: float\n    count: int = 1\n\n\n{P}\ndef create_item(item: Item):\n    if item.count < 1:\n        raise HTTPException(status_code=422)\n    {P}",
        swap(
            swap(FASTAPI, "    price: float\n", "    price: float\n    count: int = 1\n"),
            "    item_id = len",
            "    if item.count < 1:\n        raise HTTPException(status_code=422)\n    item_id = len",
        ),
    ),
    (
        "further, an import more of a module",
        "main.py",
        FASTAPI,
        f"from fastapi import Depends, FastAPI, HTTPException\n{P}",
        swap(FASTAPI, "import FastAPI", "import Depends, FastAPI"),
    ),
    (
        "further, a route whose decorator changes",
        "main.py",
        FASTAPI,
        f'{P}\n@app.post("/items/", status_code=201)\ndef create_item(item: Item):\n    {P}\n{P}',
        swap(FASTAPI, '@app.post("/items/")', '@app.post("/items/", status_code=201)'),
    ),
    (
        "further, a test at the end of a group",
        "math.test.ts",
        TESTS,
        f'{J}\ndescribe("add", () => {{\n  {J}\n  it("adds below zero", () => {{\n    expect(add(-1, -2)).toBe(-3);\n  }});\n}});\n\n{J}',
        swap(
            TESTS,
            "    expect(add(1, 0)).toBe(1);\n  });\n",
            '    expect(add(1, 0)).toBe(1);\n  });\n\n  it("adds below zero", () => {\n    expect(add(-1, -2)).toBe(-3);\n  });\n',
        ),
    ),
    (
        "further, a group of tests at the end",
        "math.test.ts",
        TESTS,
        f'{J}\ndescribe("mul", () => {{\n  it("multiplies", () => {{\n    expect(mul(3, 2)).toBe(6);\n  }});\n}});\n',
        None,
    ),
    (
        "further, one more expectation",
        "math.test.ts",
        TESTS,
        f'{J}\n  it("adds", () => {{\n    {J}    expect(add(2, 2)).toBe(4);\n  }});\n\n{J}',
        swap(
            TESTS,
            "    expect(add(1, 2)).toBe(3);\n",
            "    expect(add(1, 2)).toBe(3);\n    expect(add(2, 2)).toBe(4);\n",
        ),
    ),
    (
        "further, a test of pytest at the end",
        "test_price.py",
        PYTEST,
        f"{P}\n\ndef test_two(cart):\n    cart.append(3)\n    cart.append(4)\n    assert price(cart) == 7\n",
        None,
    ),
    (
        "further, a test of pytest between two",
        "test_price.py",
        PYTEST,
        f"{P}\n\ndef test_free(cart):\n    cart.append(0)\n    assert price(cart) == 0\n\n\ndef test_one(cart):\n    cart.append(3)\n    assert price(cart) == 3\n",
        swap(
            PYTEST,
            "def test_one",
            "def test_free(cart):\n    cart.append(0)\n    assert price(cart) == 0\n\n\ndef test_one",
        ),
    ),
    (
        "further, one more assertion",
        "test_price.py",
        PYTEST,
        f"{P}\ndef test_empty(cart):\n    {P}    assert price(None) == 0\n\n\n{P}",
        swap(PYTEST, "    assert price(cart) == 0\n", "    assert price(cart) == 0\n    assert price(None) == 0\n"),
    ),
    ("further, markers only", "calc.js", CALC, f"{J}", CALC),
    (
        "further, markers at both ends of a statement",
        "calc.js",
        CALC,
        f"{J}        this.result /= number;\n        this.log.push(number);\n        return this;\n{J}",
        swap(CALC, "/= number;\n", "/= number;\n        this.log.push(number);\n"),
    ),
    (
        "further, a method left out with its comment",
        "calc.js",
        CALC,
        f"{J}    add(number) {{\n        {J}    }}\n\n    multiply(number) {{\n        {J}    }}\n\n    {J}}}\n",
        swap(CALC, "    subtract(number) {\n        this.result -= number;\n        return this;\n    }\n\n", ""),
    ),
    (
        "further, a snippet two spaces deep in a file of four",
        "calc.js",
        CALC,
        f"class Calculator {{\n  {J}\n  divide(number) {{\n    if (!number) {{\n      return null;\n    }}\n    this.result /= number;\n    return this;\n  }}\n\n  {J}}}\n",
        swap(
            swap(CALC, "if (number === 0)", "if (!number)"), 'throw new Error("Cannot divide by zero");', "return null;"
        ),
    ),
    ("further, a file of something else", "calc.js", CALC, "export function sum(a, b) {\n  return a + b;\n}\n", None),
    (
        "further, a function whose name is only called",
        "main.py",
        FASTAPI,
        "def HTTPException(status_code):\n    return status_code\n",
        None,
    ),
]
