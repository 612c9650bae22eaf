"""A small cash register."""
