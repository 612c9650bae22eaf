"""Lazy edits of JavaScript, Ruby, PHP and shell files."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

STACK = """const { EventEmitter } = require("events");

class Stack extends EventEmitter {
  constructor() {
    super();
    this.items = [];
  }

  push(item) {
    this.items.push(item);
    this.emit("push", item);
  }

  pop() {
    return this.items.pop();
  }
}

class Queue extends EventEmitter {
  constructor() {
    super();
    this.items = [];
  }

  push(item) {
    this.items.push(item);
  }

  shift() {
    return this.items.shift();
  }
}

module.exports = { Stack, Queue };
"""
ROUTES = """const express = require("express");
const app = express();

app.get("/", (req, res) => {
  res.send("home");
});

app.get("/users", (req, res) => {
  res.json([]);
});

app.listen(3000);
"""
CONFIG = """module.exports = {
  mode: "production",
  entry: "./src/index.js",
  output: {
    path: "dist",
    filename: "bundle.js",
  },
};
"""
RUBY = """require "json"

class Account
  attr_reader :balance

  def initialize(balance = 0)
    @balance = balance
  end

  def deposit(amount)
    @balance += amount
  end

  def withdraw(amount)
    @balance -= amount
  end
end

class Bank
  def open
    Account.new
  end
end
"""
PHP = """<?php

namespace App;

class Cart
{
    private array $items = [];

    public function add(string $item): void
    {
        $this->items[] = $item;
    }

    public function count(): int
    {
        return count($this->items);
    }
}
"""
SHELL = """#!/bin/sh
set -e

build() {
    echo "building"
    make all
}

clean() {
    rm -rf out
}

case "$1" in
    build) build ;;
    clean) clean ;;
esac
"""
MARK = "// ... existing code ...\n"
HASH = "# ... existing code ...\n"

CASES: list[Row] = [
    (
        "js, the second of two classes with the same method",
        "stack.js",
        STACK,
        f'{MARK}\nclass Queue extends EventEmitter {{\n  {MARK}\n  push(item) {{\n    this.items.push(item);\n    this.emit("push", item);\n  }}\n\n  {MARK}}}\n\n{MARK}',
        swap(
            STACK,
            "    this.items.push(item);\n  }\n",
            '    this.items.push(item);\n    this.emit("push", item);\n  }\n',
        ),
    ),
    (
        "js, both classes",
        "stack.js",
        STACK,
        f"{MARK}\nclass Stack extends EventEmitter {{\n  {MARK}\n  peek() {{\n    return this.items.at(-1);\n  }}\n}}\n\n"
        f"class Queue extends EventEmitter {{\n  {MARK}\n  peek() {{\n    return this.items[0];\n  }}\n}}\n\n{MARK}",
        swap(
            swap(
                STACK,
                "this.items.pop();\n  }\n",
                "this.items.pop();\n  }\n\n  peek() {\n    return this.items.at(-1);\n  }\n",
            ),
            "this.items.shift();\n  }\n",
            "this.items.shift();\n  }\n\n  peek() {\n    return this.items[0];\n  }\n",
        ),
    ),
    (
        "js, a method that two classes have, alone",
        "stack.js",
        STACK,
        "  push(item) {\n    this.items.unshift(item);\n  }\n",
        None,
    ),
    (
        "js, a constructor",
        "stack.js",
        STACK,
        f"{MARK}\nclass Stack extends EventEmitter {{\n  constructor(limit) {{\n    super();\n    this.items = [];\n    this.limit = limit;\n  }}\n\n  {MARK}}}\n\n{MARK}",
        swap(
            STACK,
            "Stack extends EventEmitter {\n  constructor() {\n    super();\n    this.items = [];\n",
            "Stack extends EventEmitter {\n  constructor(limit) {\n    super();\n    this.items = [];\n    this.limit = limit;\n",
        ),
    ),
    (
        "js, a marker that is a block comment with a few words",
        "stack.js",
        STACK,
        "/* unchanged */\n\nclass Queue extends EventEmitter {\n  /* unchanged */\n\n  shift() {\n    return this.items.shift() ?? null;\n  }\n}\n\n/* unchanged */\n",
        swap(STACK, "items.shift();", "items.shift() ?? null;"),
    ),
    (
        "js, a handler",
        "app.js",
        ROUTES,
        f'{MARK}\napp.get("/users", (req, res) => {{\n  res.json([{{ id: 1 }}]);\n}});\n\n{MARK}',
        swap(ROUTES, "res.json([])", "res.json([{ id: 1 }])"),
    ),
    (
        "js, a handler before the last line",
        "app.js",
        ROUTES,
        f'{MARK}\napp.post("/users", (req, res) => {{\n  res.status(201).end();\n}});\n\napp.listen(3000);\n',
        swap(ROUTES, "app.listen", 'app.post("/users", (req, res) => {\n  res.status(201).end();\n});\n\napp.listen'),
    ),
    (
        "js, a middleware after the first lines",
        "app.js",
        ROUTES,
        'const express = require("express");\nconst app = express();\n\napp.use(express.json());\n\n// ... rest of the code remains the same\n',
        swap(ROUTES, "express();\n", "express();\n\napp.use(express.json());\n"),
    ),
    (
        "js, a key of an inner object",
        "webpack.config.js",
        CONFIG,
        "module.exports = {\n  // ... existing config ...\n  output: {\n    // ... existing output ...\n    clean: true,\n  },\n};\n",
        swap(CONFIG, '"bundle.js",\n', '"bundle.js",\n    clean: true,\n'),
    ),
    (
        "js, a key at the end of an object",
        "webpack.config.js",
        CONFIG,
        'module.exports = {\n  ...\n  devtool: "source-map",\n};\n',
        swap(CONFIG, "  },\n};", '  },\n  devtool: "source-map",\n};'),
    ),
    (
        "js, CRLF and no newline at the end",
        "app.js",
        ROUTES[:-1].replace("\n", "\r\n"),
        f"{MARK}\napp.listen(8080);\n",
        swap(ROUTES, "3000", "8080")[:-1].replace("\n", "\r\n"),
    ),
    (
        "ruby, a method",
        "account.rb",
        RUBY,
        f'{HASH}\nclass Account\n  {HASH}\n  def withdraw(amount)\n    raise "too much" if amount > @balance\n\n    @balance -= amount\n  end\nend\n\n{HASH}',
        swap(RUBY, "    @balance -= amount\n", '    raise "too much" if amount > @balance\n\n    @balance -= amount\n'),
    ),
    (
        "ruby, a method at the end of a class",
        "account.rb",
        RUBY,
        f"class Account\n  {HASH}\n  def to_json(*args)\n    {{ balance: @balance }}.to_json(*args)\n  end\nend\n",
        swap(
            RUBY,
            "-= amount\n  end\n",
            "-= amount\n  end\n\n  def to_json(*args)\n    { balance: @balance }.to_json(*args)\n  end\n",
        ),
    ),
    (
        "php, a method",
        "Cart.php",
        PHP,
        f"<?php\n\n{MARK}\nclass Cart\n{{\n    {MARK}\n    public function add(string $item, int $times = 1): void\n    {{\n        for ($i = 0; $i < $times; $i++) {{\n"
        f"            $this->items[] = $item;\n        }}\n    }}\n\n    {MARK}}}\n",
        swap(
            swap(PHP, "add(string $item)", "add(string $item, int $times = 1)"),
            "        $this->items[] = $item;\n",
            "        for ($i = 0; $i < $times; $i++) {\n            $this->items[] = $item;\n        }\n",
        ),
    ),
    (
        "php, a method at the end",
        "Cart.php",
        PHP,
        f"{MARK}\n    public function clear(): void\n    {{\n        $this->items = [];\n    }}\n}}\n",
        None,
    ),
    (
        "shell, a function",
        "build.sh",
        SHELL,
        f"#!/bin/sh\nset -e\n\n{HASH}\nclean() {{\n    rm -rf out tmp\n}}\n\n{HASH}",
        swap(SHELL, "rm -rf out", "rm -rf out tmp"),
    ),
    (
        "shell, a branch",
        "build.sh",
        SHELL,
        f'{HASH}\ncase "$1" in\n    {HASH}    clean) clean ;;\n    *) echo "usage: $0 build|clean" ;;\nesac\n',
        swap(SHELL, "    clean) clean ;;\n", '    clean) clean ;;\n    *) echo "usage: $0 build|clean" ;;\n'),
    ),
    (
        "shell, a line in a function",
        "build.sh",
        SHELL,
        f"{HASH}\nbuild() {{\n    {HASH}    make all\n    make test\n}}\n\n{HASH}",
        swap(SHELL, "    make all\n", "    make all\n    make test\n"),
    ),
]
