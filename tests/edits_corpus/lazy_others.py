"""Lazy edits of further files, written when the others passed."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

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
        None,
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
]
