"""The plan and its todos."""
