"""Lazy edits of Go, Rust and Kotlin files."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

GO = """package main

import (
	"fmt"
	"os"
)

type Server struct {
	addr string
	hits int
}

func New(addr string) *Server {
	return &Server{addr: addr}
}

func (s *Server) Start() error {
	fmt.Println("start", s.addr)
	return nil
}

func (s *Server) Stop() error {
	fmt.Println("stop")
	return nil
}

func main() {
	if err := New(os.Args[1]).Start(); err != nil {
		os.Exit(1)
	}
}
"""
RUST = """use std::collections::HashMap;

#[derive(Debug)]
pub enum Token {
    Number(f64),
    Plus,
    Minus,
}

pub struct Lexer {
    input: String,
    at: usize,
}

impl Lexer {
    pub fn new(input: String) -> Self {
        Lexer { input, at: 0 }
    }

    pub fn next(&mut self) -> Option<Token> {
        let sign = self.input.chars().nth(self.at)?;
        self.at += 1;
        match sign {
            '+' => Some(Token::Plus),
            '-' => Some(Token::Minus),
            _ => None,
        }
    }
}

impl Default for Lexer {
    fn default() -> Self {
        Lexer::new(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty() {
        assert!(Lexer::default().next().is_none());
    }
}
"""
KOTLIN = """package shop

data class Item(val name: String, val price: Int)

class Cart {
    private val items = mutableListOf<Item>()

    fun add(item: Item) {
        items.add(item)
    }

    fun total(): Int {
        return items.sumOf { it.price }
    }

    companion object {
        const val LIMIT = 10
    }
}
"""
MARK = "// ... existing code ...\n"

CASES: list[Row] = [
    (
        "go, an import in the group",
        "main.go",
        GO,
        f'package main\n\nimport (\n\t"fmt"\n\t"log"\n\t"os"\n)\n\n{MARK}',
        swap(GO, '\t"os"\n', '\t"log"\n\t"os"\n'),
    ),
    (
        "go, a method with a receiver",
        "main.go",
        GO,
        f'{MARK}\nfunc (s *Server) Stop() error {{\n\tfmt.Println("stop", s.hits)\n\treturn nil\n}}\n\n{MARK}',
        swap(GO, 'Println("stop")', 'Println("stop", s.hits)'),
    ),
    (
        "go, spaces for tabs",
        "main.go",
        GO,
        f'{MARK}\nfunc (s *Server) Stop() error {{\n    fmt.Println("stop", s.hits)\n    return nil\n}}\n\n{MARK}',
        swap(GO, 'Println("stop")', 'Println("stop", s.hits)'),
    ),
    (
        "go, a field and a constructor",
        "main.go",
        GO,
        f"{MARK}\ntype Server struct {{\n\taddr string\n\thits int\n\tquiet bool\n}}\n\nfunc New(addr string, quiet bool) *Server {{\n\treturn &Server{{addr: addr, quiet: quiet}}\n}}\n\n{MARK}",
        swap(
            swap(
                swap(GO, "\thits int\n", "\thits int\n\tquiet bool\n"),
                "New(addr string)",
                "New(addr string, quiet bool)",
            ),
            "{addr: addr}",
            "{addr: addr, quiet: quiet}",
        ),
    ),
    (
        "go, a method after another",
        "main.go",
        GO,
        f"{MARK}\nfunc (s *Server) Stop() error {{\n\t{MARK}}}\n\nfunc (s *Server) Hits() int {{\n\treturn s.hits\n}}\n\nfunc main() {{\n\t{MARK}}}\n",
        swap(GO, "func main", "func (s *Server) Hits() int {\n\treturn s.hits\n}\n\nfunc main"),
    ),
    (
        "rust, a variant and its arm",
        "lexer.rs",
        RUST,
        f"{MARK}\n#[derive(Debug)]\npub enum Token {{\n    {MARK}    Minus,\n    Star,\n}}\n\n{MARK}\nimpl Lexer {{\n    {MARK}\n    pub fn next(&mut self) -> Option<Token> {{\n"
        f"        {MARK}        match sign {{\n            {MARK}            '*' => Some(Token::Star),\n            _ => None,\n        }}\n    }}\n}}\n\n{MARK}",
        swap(
            swap(RUST, "    Minus,\n", "    Minus,\n    Star,\n"),
            "            _ => None,\n",
            "            '*' => Some(Token::Star),\n            _ => None,\n",
        ),
    ),
    (
        "rust, one of two impl blocks",
        "lexer.rs",
        RUST,
        f"{MARK}\nimpl Lexer {{\n    {MARK}\n    pub fn rest(&self) -> &str {{\n        &self.input[self.at..]\n    }}\n}}\n\n{MARK}",
        swap(
            RUST,
            "            _ => None,\n        }\n    }\n",
            "            _ => None,\n        }\n    }\n\n    pub fn rest(&self) -> &str {\n        &self.input[self.at..]\n    }\n",
        ),
    ),
    (
        "rust, an attribute before a struct",
        "lexer.rs",
        RUST,
        f"{MARK}\n#[derive(Clone)]\npub struct Lexer {{\n    {MARK}}}\n\n{MARK}",
        swap(RUST, "pub struct", "#[derive(Clone)]\npub struct"),
    ),
    (
        "rust, a test",
        "lexer.rs",
        RUST,
        f'{MARK}\n#[cfg(test)]\nmod tests {{\n    use super::*;\n\n    {MARK}\n    #[test]\n    fn plus() {{\n        assert!(Lexer::new("+".into()).next().is_some());\n    }}\n}}\n',
        swap(
            RUST,
            "next().is_none());\n    }\n",
            'next().is_none());\n    }\n\n    #[test]\n    fn plus() {\n        assert!(Lexer::new("+".into()).next().is_some());\n    }\n',
        ),
    ),
    (
        "kotlin, a function",
        "Cart.kt",
        KOTLIN,
        f"{MARK}\nclass Cart {{\n    {MARK}\n    fun add(item: Item) {{\n        require(items.size < LIMIT)\n        items.add(item)\n    }}\n\n    {MARK}}}\n",
        swap(KOTLIN, "        items.add", "        require(items.size < LIMIT)\n        items.add"),
    ),
    (
        "kotlin, a function before the companion",
        "Cart.kt",
        KOTLIN,
        f"{MARK}\nclass Cart {{\n    {MARK}\n    fun clear() {{\n        items.clear()\n    }}\n\n    companion object {{\n        {MARK}    }}\n}}\n",
        swap(KOTLIN, "    companion", "    fun clear() {\n        items.clear()\n    }\n\n    companion"),
    ),
]
