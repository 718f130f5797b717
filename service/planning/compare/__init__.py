"""Comparisons: one question with every combination of what varies, answered row by row."""

from service.planning.compare.table import comparison_of, csv_of_comparison

__all__ = ["comparison_of", "csv_of_comparison"]
