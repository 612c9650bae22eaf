"""Tools that ask about names in the code."""
