"""`-p`: one prompt without a screen, and how its answer is printed."""
