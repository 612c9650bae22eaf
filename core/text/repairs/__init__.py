"""Repairs of text that people or models wrote nearly right: nothing is changed of what is right."""
