"""The functional core: arithmetic and rules, without I/O, clock, log or randomness."""
