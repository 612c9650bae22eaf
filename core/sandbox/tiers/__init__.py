"""Tiers: the ways to build a box, strongest first, and the choice of the one that works here."""
