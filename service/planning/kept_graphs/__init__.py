"""Compute graphs that are kept for other processes and the next start, in a file of the user's cache folder.

Most of the time of a plan about a model that was not asked for before goes into building its compute graphs. What comes
out depends on nothing but the model's header, the question and the program, and is kept by a digest of all three.
"""

from service.planning.kept_graphs.keeping import cache_folder, keep_graphs, write_kept_graphs

__all__ = ["cache_folder", "keep_graphs", "write_kept_graphs"]
