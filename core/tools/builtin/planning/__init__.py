"""Tools for plans, todos, questions and modes."""
