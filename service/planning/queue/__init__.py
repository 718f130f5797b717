"""Batch jobs: questions that wait in PostgreSQL for workers on any machine, each answered once and only once."""
