"""Sessions by HTTP: their routes, the records of these, and the rights that commands need."""
