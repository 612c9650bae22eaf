"""Vim's keys for the prompt: a machine that turns keys, a text and a cursor into edits, and knows no widget."""
