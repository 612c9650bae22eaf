"""The appearance of the screen: palettes, themes, and their adaptation to the terminal."""
