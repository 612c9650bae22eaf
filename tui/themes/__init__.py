"""The appearance of the screen: palettes, themes, and their adaption to the terminal."""
