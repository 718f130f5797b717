"""HTTP: one module per noun of the contract."""
