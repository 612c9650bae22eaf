"""Lazy edits of HTML, CSS, SQL, YAML, TOML, JSON and Markdown files."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

HTML = """<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>Shop</title>
</head>
<body>
  <nav>
    <ul>
      <li><a href="/">Home</a></li>
      <li><a href="/cart">Cart</a></li>
    </ul>
  </nav>
  <main>
    <h1>Shop</h1>
    <p>Welcome.</p>
  </main>
  <footer>
    <p>2024</p>
  </footer>
</body>
</html>
"""
CSS = """:root {
  --accent: teal;
}

body {
  margin: 0;
  color: black;
}

.button {
  color: white;
  background: var(--accent);
}

.button:hover {
  background: black;
}

@media (max-width: 600px) {
  .button {
    width: 100%;
  }
}
"""
SQL = """CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    user_id INTEGER REFERENCES users (id),
    total INTEGER
);

CREATE INDEX orders_user ON orders (user_id);

INSERT INTO users (id, name) VALUES (1, 'ann');
"""
YAML = """version: "3"
services:
  web:
    image: nginx
    ports:
      - "80:80"
  db:
    image: postgres
    environment:
      USER: app
      PASSWORD: secret
volumes:
  data: {}
"""
CI = """name: ci
on: [push]
jobs:
  test:
    runs-on: ubuntu
    steps:
      - uses: checkout
      - name: Install
        run: make install
      - name: Test
        run: make test
"""
TOML = """[project]
name = "shop"
version = "1.0"
dependencies = [
    "flask",
    "redis",
]

[tool.ruff]
line-length = 100

[tool.mypy]
strict = true
"""
JSON = """{
  "name": "shop",
  "version": "1.0.0",
  "scripts": {
    "build": "tsc",
    "test": "jest"
  },
  "dependencies": {
    "react": "18.0.0"
  }
}
"""
MARKDOWN = """# Shop

A small shop.

## Install

Run `make install`.

## Use

1. Start it.
2. Open it.

### Options

- `--port`
- `--debug`

## License

MIT
"""
HTML_MARK = "<!-- ... existing code ... -->\n"
CSS_MARK = "/* ... existing styles ... */\n"
SQL_MARK = "-- ... existing code ...\n"
HASH = "# ... existing code ...\n"

CASES: list[Row] = [
    (
        "html, an item of a list",
        "index.html",
        HTML,
        f'{HTML_MARK}  <nav>\n    <ul>\n      {HTML_MARK}      <li><a href="/cart">Cart</a></li>\n      <li><a href="/help">Help</a></li>\n    </ul>\n  </nav>\n  {HTML_MARK}',
        swap(HTML, "Cart</a></li>\n", 'Cart</a></li>\n      <li><a href="/help">Help</a></li>\n'),
    ),
    (
        "html, a link in the head",
        "index.html",
        HTML,
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n  <!-- ... existing head content ... -->\n  <link rel="stylesheet" href="shop.css">\n</head>\n<body>\n  <!-- ... existing body ... -->\n</body>\n</html>\n',
        swap(HTML, "</title>\n", '</title>\n  <link rel="stylesheet" href="shop.css">\n'),
    ),
    (
        "html, one of two paragraphs",
        "index.html",
        HTML,
        f"{HTML_MARK}  <footer>\n    <p>2025</p>\n  </footer>\n</body>\n</html>\n",
        swap(HTML, "2024", "2025"),
    ),
    (
        "html, an element that replaces others",
        "index.html",
        HTML,
        f"{HTML_MARK}  <main>\n    <h1>Shop</h1>\n    <p>Hello!</p>\n    <button>Buy</button>\n  </main>\n{HTML_MARK}",
        swap(HTML, "    <p>Welcome.</p>\n", "    <p>Hello!</p>\n    <button>Buy</button>\n"),
    ),
    (
        "html, an element and nothing else",
        "index.html",
        HTML,
        "  <footer>\n    <p>2025</p>\n    <p>All rights reserved.</p>\n  </footer>\n",
        swap(HTML, "    <p>2024</p>\n", "    <p>2025</p>\n    <p>All rights reserved.</p>\n"),
    ),
    (
        "css, one of two rules of the same name",
        "shop.css",
        CSS,
        f"{CSS_MARK}\n.button {{\n  color: white;\n  background: var(--accent);\n  border: 0;\n}}\n\n{CSS_MARK}",
        swap(CSS, "  background: var(--accent);\n", "  background: var(--accent);\n  border: 0;\n"),
    ),
    (
        "css, a rule in a query",
        "shop.css",
        CSS,
        f"{CSS_MARK}\n@media (max-width: 600px) {{\n  {CSS_MARK}\n  body {{\n    margin: 1em;\n  }}\n}}\n",
        swap(CSS, "    width: 100%;\n  }\n", "    width: 100%;\n  }\n\n  body {\n    margin: 1em;\n  }\n"),
    ),
    (
        "css, a property on top",
        "shop.css",
        CSS,
        f":root {{\n  --accent: teal;\n  --text: #222;\n}}\n\nbody {{\n  margin: 0;\n  color: var(--text);\n}}\n\n{CSS_MARK}",
        swap(swap(CSS, "teal;\n", "teal;\n  --text: #222;\n"), "color: black", "color: var(--text)"),
    ),
    (
        "css, a rule after another",
        "shop.css",
        CSS,
        f"{CSS_MARK}\n.button:hover {{\n  background: black;\n}}\n\n.button:disabled {{\n  opacity: 0.5;\n}}\n\n{CSS_MARK}",
        swap(
            CSS,
            ":hover {\n  background: black;\n}\n",
            ":hover {\n  background: black;\n}\n\n.button:disabled {\n  opacity: 0.5;\n}\n",
        ),
    ),
    (
        "sql, a column",
        "schema.sql",
        SQL,
        f"{SQL_MARK}\nCREATE TABLE orders (\n    id INTEGER PRIMARY KEY,\n    user_id INTEGER REFERENCES users (id),\n    total INTEGER,\n    paid BOOLEAN\n);\n\n{SQL_MARK}",
        swap(SQL, "    total INTEGER\n", "    total INTEGER,\n    paid BOOLEAN\n"),
    ),
    (
        "sql, a statement at the end",
        "schema.sql",
        SQL,
        f"{SQL_MARK}\nINSERT INTO users (id, name) VALUES (1, 'ann');\nINSERT INTO users (id, name) VALUES (2, 'bob');\n",
        SQL + "INSERT INTO users (id, name) VALUES (2, 'bob');\n",
    ),
    (
        "sql, an index after another",
        "schema.sql",
        SQL,
        f"{SQL_MARK}\nCREATE INDEX orders_user ON orders (user_id);\nCREATE INDEX orders_total ON orders (total);\n\n{SQL_MARK}",
        swap(SQL, "(user_id);\n", "(user_id);\nCREATE INDEX orders_total ON orders (total);\n"),
    ),
    (
        "sql, a table and nothing else",
        "schema.sql",
        SQL,
        "CREATE TABLE users (\n    id INTEGER PRIMARY KEY,\n    name TEXT NOT NULL,\n    mail TEXT\n);\n",
        swap(SQL, "    name TEXT NOT NULL\n", "    name TEXT NOT NULL,\n    mail TEXT\n"),
    ),
    (
        "yaml, a service between two",
        "compose.yml",
        YAML,
        f"{HASH}services:\n  web:\n    {HASH}  cache:\n    image: redis\n  db:\n    {HASH}{HASH}",
        swap(YAML, "  db:\n", "  cache:\n    image: redis\n  db:\n"),
    ),
    (
        "yaml, a key of one of two mappings",
        "compose.yml",
        YAML,
        f"{HASH}services:\n  {HASH}  db:\n    image: postgres:16\n    {HASH}{HASH}",
        swap(YAML, "image: postgres", "image: postgres:16"),
    ),
    (
        "yaml, a key that was not there",
        "compose.yml",
        YAML,
        f"{HASH}  db:\n    image: postgres\n    restart: always\n    {HASH}\n{HASH}",
        swap(YAML, "image: postgres\n", "image: postgres\n    restart: always\n"),
    ),
    (
        "yaml, a step at the end",
        "ci.yml",
        CI,
        f"{HASH}jobs:\n  test:\n    {HASH}    steps:\n      {HASH}      - name: Test\n        run: make test\n      - name: Lint\n        run: make lint\n",
        CI + "      - name: Lint\n        run: make lint\n",
    ),
    (
        "yaml, a step changed",
        "ci.yml",
        CI,
        f"{HASH}      - name: Install\n        run: make install-all\n{HASH}",
        swap(CI, "make install", "make install-all"),
    ),
    (
        "toml, a dependency",
        "pyproject.toml",
        TOML,
        f'[project]\nname = "shop"\nversion = "1.1"\ndependencies = [\n    {HASH}    "sqlalchemy",\n]\n\n{HASH}',
        swap(swap(TOML, '"1.0"', '"1.1"'), '    "redis",\n', '    "redis",\n    "sqlalchemy",\n'),
    ),
    (
        "toml, a table changed",
        "pyproject.toml",
        TOML,
        f"{HASH}\n[tool.ruff]\nline-length = 120\n\n{HASH}",
        swap(TOML, "= 100", "= 120"),
    ),
    (
        "toml, a table at the end",
        "pyproject.toml",
        TOML,
        f'{HASH}\n[tool.pytest]\naddopts = "-q"\n',
        None,
    ),
    (
        "json, a script",
        "package.json",
        JSON,
        '{\n  // ... existing code ...\n  "scripts": {\n    "build": "tsc",\n    "test": "jest",\n    "lint": "eslint ."\n  },\n  // ... existing code ...\n}\n',
        swap(JSON, '"jest"\n', '"jest",\n    "lint": "eslint ."\n'),
    ),
    (
        "json, a script after those that stay",
        "package.json",
        JSON,
        '{\n  ...\n  "scripts": {\n    ...\n    "lint": "eslint ."\n  },\n  ...\n}\n',
        swap(JSON, '"jest"\n', '"jest",\n    "lint": "eslint ."\n'),
    ),
    (
        "json, a value",
        "package.json",
        JSON,
        '{\n  "name": "shop",\n  "version": "1.1.0",\n  // ... rest of the file\n}\n',
        swap(JSON, "1.0.0", "1.1.0"),
    ),
    (
        "json, a dependency before another",
        "package.json",
        JSON,
        '{\n  "...": "existing code",\n  "dependencies": {\n    "axios": "1.0.0",\n    "react": "18.0.0"\n  }\n}\n',
        swap(JSON, '    "react"', '    "axios": "1.0.0",\n    "react"'),
    ),
    (
        "json, a key at the end and no newline there",
        "package.json",
        JSON[:-1],
        '{\n  // ... existing keys ...\n  "private": true\n}\n',
        swap(JSON, '    "react": "18.0.0"\n  }\n', '    "react": "18.0.0"\n  },\n  "private": true\n')[:-1],
    ),
    (
        "markdown, a section between two",
        "README.md",
        MARKDOWN,
        "<!-- ... existing content ... -->\n\n### Options\n\n- `--port`\n- `--debug`\n\n## Help\n\nAsk us.\n\n## License\n\nMIT\n",
        swap(MARKDOWN, "## License", "## Help\n\nAsk us.\n\n## License"),
    ),
    (
        "markdown, a section with its own marker",
        "README.md",
        MARKDOWN,
        "# Shop\n\n<!-- ... -->\n\n## Install\n\nRun `make install` and wait.\n\n... (rest unchanged)\n",
        swap(MARKDOWN, "install`.", "install` and wait."),
    ),
    (
        "markdown, an item",
        "README.md",
        MARKDOWN,
        "[... existing content ...]\n\n### Options\n\n- `--port`\n- `--host`\n- `--debug`\n\n[... existing content ...]\n",
        swap(MARKDOWN, "- `--debug`", "- `--host`\n- `--debug`"),
    ),
    (
        "markdown, a section at the end",
        "README.md",
        MARKDOWN,
        "... existing content ...\n\n## Thanks\n\nTo all.\n",
        None,
    ),
]
