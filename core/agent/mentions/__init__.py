"""Mentions: files, symbols and sources that a prompt names, resolved before it is sent."""
