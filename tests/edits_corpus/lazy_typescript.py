"""Lazy edits of TypeScript and TSX files."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

CARD = """import React, { useState } from "react";
import { Button } from "./Button";

interface CardProps {
  title: string;
  body?: string;
}

export function Card({ title, body }: CardProps) {
  const [open, setOpen] = useState(false);

  const toggle = () => {
    setOpen(!open);
  };

  return (
    <div className="card">
      <h2>{title}</h2>
      {open && <p>{body}</p>}
      <Button onClick={toggle}>More</Button>
    </div>
  );
}

export function CardList({ cards }: { cards: CardProps[] }) {
  return (
    <ul>
      {cards.map((card) => (
        <li key={card.title}>
          <Card {...card} />
        </li>
      ))}
    </ul>
  );
}
"""
API = """import axios from "axios";

export interface User {
  id: number;
  name: string;
}

export class Api {
  private token: string | null = null;

  constructor(private readonly base: string) {}

  get(id: number): Promise<User>;
  get(name: string): Promise<User>;
  get(key: number | string): Promise<User> {
    return axios.get(`${this.base}/users/${key}`);
  }

  async login(name: string): Promise<void> {
    const answer = await axios.post(`${this.base}/login`, { name });
    this.token = answer.data.token;
  }

  logout(): void {
    this.token = null;
  }
}

export const api = new Api("/api");
"""
LOGIN = API[API.index("  async login") : API.index("  logout")]
MARK = "// ... existing code ...\n"
LOGOUT = "  logout(): void {\n    this.token = null;\n  }\n"
REFRESH = '  async refresh(): Promise<void> {\n    await axios.post("/refresh");\n  }\n'

CASES: list[Row] = [
    (
        "tsx, an element before another",
        "Card.tsx",
        CARD,
        f'{MARK}\nexport function Card({{ title, body }}: CardProps) {{\n  {MARK}\n  return (\n    <div className="card">\n      <h2>{{title}}</h2>\n'
        "      <hr />\n      {/* ... existing JSX ... */}\n    </div>\n  );\n}\n\n" + MARK,
        swap(CARD, "      <h2>{title}</h2>\n", "      <h2>{title}</h2>\n      <hr />\n"),
    ),
    (
        "tsx, an element after the others",
        "Card.tsx",
        CARD,
        f'{MARK}\n  return (\n    <div className="card">\n      {{/* ... existing elements ... */}}\n      <Button onClick={{toggle}}>More</Button>\n'
        "      <footer>{title}</footer>\n    </div>\n  );\n}\n\n" + MARK,
        swap(CARD, "More</Button>\n", "More</Button>\n      <footer>{title}</footer>\n"),
    ),
    (
        "tsx, a state and an effect",
        "Card.tsx",
        CARD,
        'import React, { useEffect, useState } from "react";\n'
        + f"{MARK}\nexport function Card({{ title, body }}: CardProps) {{\n  const [open, setOpen] = useState(false);\n  const [seen, setSeen] = useState(0);\n\n"
        + f"  useEffect(() => {{\n    setSeen((n) => n + 1);\n  }}, [open]);\n\n  {MARK}}}\n\n{MARK}",
        None,
    ),
    (
        "tsx, an arrow function",
        "Card.tsx",
        CARD,
        f'{MARK}\n  const toggle = () => {{\n    console.log("toggle");\n    setOpen(!open);\n  }};\n\n{MARK}',
        swap(CARD, "    setOpen(!open);\n", '    console.log("toggle");\n    setOpen(!open);\n'),
    ),
    (
        "tsx, a property of an interface",
        "Card.tsx",
        CARD,
        f"{MARK}\ninterface CardProps {{\n  {MARK}  onOpen?: () => void;\n}}\n\n{MARK}",
        swap(CARD, "  body?: string;\n", "  body?: string;\n  onOpen?: () => void;\n"),
    ),
    (
        "tsx, a component and nothing else",
        "Card.tsx",
        CARD,
        "export function CardList({ cards }: { cards: CardProps[] }) {\n  return (\n    <ol>\n      {cards.map((card) => (\n"
        "        <li key={card.title}>\n          <Card {...card} />\n        </li>\n      ))}\n    </ol>\n  );\n}\n",
        swap(swap(CARD, "<ul>", "<ol>"), "</ul>", "</ol>"),
    ),
    (
        "ts, a method in the middle",
        "api.ts",
        API,
        f"{MARK}\nexport class Api {{\n  {MARK}\n  async login(name: string): Promise<void> {{\n    const answer = await axios.post(`${{this.base}}/session`, {{ name }});\n"
        f"    this.token = answer.data.token;\n  }}\n\n  {MARK}}}\n\n{MARK}",
        swap(API, "/login`", "/session`"),
    ),
    (
        "ts, a method at the end",
        "api.ts",
        API,
        f"{MARK}\nexport class Api {{\n  {MARK}\n{REFRESH}}}\n\n{MARK}",
        swap(API, LOGOUT, LOGOUT + "\n" + REFRESH),
    ),
    (
        "ts, a method at the end, and the one before it whole",
        "api.ts",
        API,
        f"{MARK}\n{LOGOUT}\n{REFRESH}}}\n\n{MARK}",
        swap(API, LOGOUT, LOGOUT + "\n" + REFRESH),
    ),
    (
        "ts, a method before another that is given by its head",
        "api.ts",
        API,
        f"export class Api {{\n  {MARK}\n{REFRESH}\n  logout(): void {{\n    {MARK}  }}\n}}\n\n{MARK}",
        swap(API, LOGOUT, REFRESH + "\n" + LOGOUT),
    ),
    (
        "ts, a method before another, with the imports kept",
        "api.ts",
        API,
        f"{MARK}\nexport class Api {{\n  {MARK}\n{REFRESH}\n  logout(): void {{\n    {MARK}  }}\n}}\n\n{MARK}",
        swap(API, LOGOUT, REFRESH + "\n" + LOGOUT),
    ),
    (
        "ts, the body below overloads",
        "api.ts",
        API,
        f"{MARK}\n  get(key: number | string): Promise<User> {{\n    const path = encodeURIComponent(key);\n    return axios.get(`${{this.base}}/users/${{path}}`);\n  }}\n\n{MARK}",
        swap(
            API,
            "    return axios.get(`${this.base}/users/${key}`);\n",
            "    const path = encodeURIComponent(key);\n    return axios.get(`${this.base}/users/${path}`);\n",
        ),
    ),
    (
        "ts, a field below another",
        "api.ts",
        API,
        f"{MARK}\nexport class Api {{\n  private token: string | null = null;\n  private retries = 3;\n\n  {MARK}}}\n\n{MARK}",
        swap(API, "| null = null;\n", "| null = null;\n  private retries = 3;\n"),
    ),
    (
        "ts, a doc comment before a method",
        "api.ts",
        API,
        f"{MARK}\n  /**\n   * Forgets the token.\n   */\n  logout(): void {{\n    {MARK}  }}\n}}\n\n{MARK}",
        swap(API, LOGOUT, "  /**\n   * Forgets the token.\n   */\n" + LOGOUT),
    ),
    (
        "ts, a method left out between two that are kept",
        "api.ts",
        API,
        f"{MARK}\n  get(key: number | string): Promise<User> {{\n    {MARK}  }}\n\n  logout(): void {{\n    {MARK}  }}\n}}\n\n{MARK}",
        swap(API, LOGIN, ""),
    ),
    (
        "ts, a constant at the end",
        "api.ts",
        API,
        f'{MARK}\nexport const api = new Api("/api/v2");\n',
        swap(API, '"/api"', '"/api/v2"'),
    ),
]
