"""Who may do what: API keys, and what each address needs."""
