"""The looks of the screen: palettes, the themes made of them, and how both fit the terminal at hand."""
