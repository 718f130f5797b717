"""Measurements: matched to cards, models and builds, judged, kept, and what they say about predictions."""
