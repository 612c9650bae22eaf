"""Lazy edits that were written when the others passed."""

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
REDUCER = """export function reducer(state, action) {
  switch (action.type) {
    case "add":
      return { ...state, items: [...state.items, action.item] };
    case "clear":
      return { ...state, items: [] };
    default:
      return state;
  }
}
"""
STORE_TS = """type State = {
  user: string | null;
  theme: "light" | "dark";
};

export const initial: State = {
  user: null,
  theme: "light",
};

export enum Level {
  Low = 1,
  High = 2,
}

const handlers = {
  login: (state: State, user: string) => ({ ...state, user }),
  logout: (state: State) => ({ ...state, user: null }),
};

export default handlers;
"""
MODELS = """from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=100)

    class Meta:
        ordering = ["name"]

    def __str__(self):
        return self.name


class Book(models.Model):
    title = models.CharField(max_length=200)
    author = models.ForeignKey(Author, on_delete=models.CASCADE)

    class Meta:
        ordering = ["title"]

    def __str__(self):
        return self.title
"""
DOCKER = """FROM python:3.11
WORKDIR /app
COPY requirements.txt .
RUN pip install -r requirements.txt
COPY . .
CMD ["python", "app.py"]
"""
MAKE = """.PHONY: all test

all: build test

build:
\tgo build ./...

test:
\tgo test ./...

clean:
\trm -rf bin
"""
ENV = "A=1\nB=2\n\n# database\nDB_HOST=local\nDB_PORT=5432\n"
QUERY = """SELECT
    u.id,
    u.name
FROM users u
JOIN orders o ON o.user_id = u.id
WHERE u.active = 1
ORDER BY u.name;
"""
VUE = """<template>
  <div>
    <h1>{{ title }}</h1>
    <button @click="count++">{{ count }}</button>
  </div>
</template>

<script>
export default {
  data() {
    return {
      title: "App",
      count: 0,
    };
  },
  methods: {
    reset() {
      this.count = 0;
    },
  },
};
</script>

<style scoped>
h1 {
  color: red;
}
</style>
"""
GRADLE = """plugins {
    id("java")
}

dependencies {
    implementation("a:b:1")
    testImplementation("junit:junit:4")
}
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
        TESTS + '\ndescribe("mul", () => {\n  it("multiplies", () => {\n    expect(mul(3, 2)).toBe(6);\n  });\n});\n',
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
        PYTEST + "\n\ndef test_two(cart):\n    cart.append(3)\n    cart.append(4)\n    assert price(cart) == 7\n",
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
    (
        "further, a case of a switch",
        "reducer.js",
        REDUCER,
        f'export function reducer(state, action) {{\n  switch (action.type) {{\n    {J}    case "remove":\n      return {{ ...state, items: state.items.filter((i) => i !== action.item) }};\n    default:\n      return state;\n  }}\n}}\n',
        swap(
            REDUCER,
            "    default:",
            '    case "remove":\n      return { ...state, items: state.items.filter((i) => i !== action.item) };\n    default:',
        ),
    ),
    (
        "further, a case of a switch changed",
        "reducer.js",
        REDUCER,
        f'  switch (action.type) {{\n    {J}    case "clear":\n      return {{ ...state, items: [], cleared: true }};\n    {J}  }}\n',
        swap(REDUCER, "items: [] }", "items: [], cleared: true }"),
    ),
    (
        "further, a type and a value",
        "store.ts",
        STORE_TS,
        f'type State = {{\n  {J}  lang: string;\n}};\n\nexport const initial: State = {{\n  {J}  lang: "en",\n}};\n\n{J}',
        swap(
            swap(STORE_TS, '"dark";\n', '"dark";\n  lang: string;\n'),
            '  theme: "light",\n',
            '  theme: "light",\n  lang: "en",\n',
        ),
    ),
    (
        "further, a member of an enum",
        "store.ts",
        STORE_TS,
        f"{J}\nexport enum Level {{\n  {J}  Highest = 3,\n}}\n\n{J}",
        swap(STORE_TS, "  High = 2,\n", "  High = 2,\n  Highest = 3,\n"),
    ),
    (
        "further, an arrow in an object",
        "store.ts",
        STORE_TS,
        f'{J}\nconst handlers = {{\n  {J}  toggle: (state: State) => ({{ ...state, theme: "dark" }}),\n}};\n\nexport default handlers;\n',
        swap(
            STORE_TS, "user: null }),\n", 'user: null }),\n  toggle: (state: State) => ({ ...state, theme: "dark" }),\n'
        ),
    ),
    (
        "further, a field in the second of two classes alike",
        "models.py",
        MODELS,
        f"{P}\nclass Book(models.Model):\n    {P}    pages = models.IntegerField(default=0)\n\n    class Meta:\n        {P}\n    {P}",
        swap(
            MODELS,
            "on_delete=models.CASCADE)\n",
            "on_delete=models.CASCADE)\n    pages = models.IntegerField(default=0)\n",
        ),
    ),
    (
        "further, an inner class of the second class",
        "models.py",
        MODELS,
        f'{P}\nclass Book(models.Model):\n    {P}\n    class Meta:\n        ordering = ["-title"]\n\n    {P}',
        swap(MODELS, 'ordering = ["title"]', 'ordering = ["-title"]'),
    ),
    (
        "further, a method at the end of the first class",
        "models.py",
        MODELS,
        f"{P}\nclass Author(models.Model):\n    {P}\n    def __str__(self):\n        return self.name\n\n    def books(self):\n        return self.book_set.all()\n\n\nclass Book(models.Model):\n    {P}",
        swap(
            MODELS,
            "        return self.name\n",
            "        return self.name\n\n    def books(self):\n        return self.book_set.all()\n",
        ),
    ),
    (
        "further, a method that both classes have",
        "models.py",
        MODELS,
        f"{P}\n    def __str__(self):\n        return self.title.upper()\n",
        None,
    ),
    (
        "further, a class between two",
        "models.py",
        MODELS,
        f"{P}\nclass Shelf(models.Model):\n    label = models.CharField(max_length=10)\n\n\nclass Book(models.Model):\n    {P}",
        swap(
            MODELS,
            "class Book(",
            "class Shelf(models.Model):\n    label = models.CharField(max_length=10)\n\n\nclass Book(",
        ),
    ),
    (
        "further, a line of a Dockerfile",
        "Dockerfile",
        DOCKER,
        f"{P}RUN pip install -r requirements.txt\nRUN adduser app\nUSER app\n{P}",
        swap(DOCKER, "requirements.txt\nCOPY . .", "requirements.txt\nRUN adduser app\nUSER app\nCOPY . ."),
    ),
    (
        "further, the base of a Dockerfile",
        "Dockerfile",
        DOCKER,
        f"FROM python:3.12-slim\nWORKDIR /app\n{P}",
        swap(DOCKER, "python:3.11", "python:3.12-slim"),
    ),
    (
        "further, a target of a Makefile",
        "Makefile",
        MAKE,
        f"{P}\nlint:\n\tgolint ./...\n\nclean:\n\trm -rf bin\n",
        swap(MAKE, "clean:", "lint:\n\tgolint ./...\n\nclean:"),
    ),
    (
        "further, a recipe of a Makefile",
        "Makefile",
        MAKE,
        f"{P}\ntest:\n\tgo vet ./...\n\tgo test -race ./...\n\n{P}",
        swap(MAKE, "\tgo test ./...\n", "\tgo vet ./...\n\tgo test -race ./...\n"),
    ),
    ("further, a variable of an env file", ".env", ENV, f"{P}DB_HOST=db\nDB_PORT=5432\n", swap(ENV, "local", "db")),
    ("further, a variable more", ".env", ENV, f"A=1\nB=2\nC=3\n\n{P}", swap(ENV, "B=2\n", "B=2\nC=3\n")),
    (
        "further, a column of a query",
        "q.sql",
        QUERY,
        "SELECT\n    u.id,\n    u.name,\n    COUNT(o.id) AS orders\nFROM users u\n-- ... existing joins and filters ...\nGROUP BY u.id, u.name\nORDER BY u.name;\n",
        swap(
            swap(QUERY, "    u.name\n", "    u.name,\n    COUNT(o.id) AS orders\n"),
            "ORDER BY",
            "GROUP BY u.id, u.name\nORDER BY",
        ),
    ),
    (
        "further, a method of a component of Vue",
        "App.vue",
        VUE,
        "<!-- ... existing template ... -->\n\n<script>\nexport default {\n  // ... existing data ...\n  methods: {\n    // ... existing methods ...\n    double() {\n      this.count *= 2;\n    },\n  },\n};\n</script>\n\n<!-- ... existing styles ... -->\n",
        swap(
            VUE,
            "      this.count = 0;\n    },\n",
            "      this.count = 0;\n    },\n    double() {\n      this.count *= 2;\n    },\n",
        ),
    ),
    (
        "further, a dependency of Gradle",
        "build.gradle.kts",
        GRADLE,
        f'{J}\ndependencies {{\n    {J}    testImplementation("junit:junit:5")\n}}\n',
        None,
    ),
    (
        "further, a dependency of Gradle between two",
        "build.gradle.kts",
        GRADLE,
        f'{J}\ndependencies {{\n    implementation("a:b:1")\n    implementation("c:d:2")\n    testImplementation("junit:junit:4")\n}}\n',
        swap(GRADLE, '("a:b:1")\n', '("a:b:1")\n    implementation("c:d:2")\n'),
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
