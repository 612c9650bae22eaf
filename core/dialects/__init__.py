"""How a model says things: from the text it writes to the parts that we show and act on."""
