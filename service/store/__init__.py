"""What the service keeps: catalogues of cards and models, and saved plans, in SQLite or PostgreSQL."""
