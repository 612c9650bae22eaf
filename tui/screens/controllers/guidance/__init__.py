"""Guidance: the tour, and hints that go away once their key was used."""
