"""Use cases: names to facts, facts through the core, answers as the contract shapes them."""
