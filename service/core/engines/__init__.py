"""Inference engines: one package each, with its rules for placement, flags and speed."""
