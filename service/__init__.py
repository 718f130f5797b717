"""Rigfit: will this model fit on these GPUs, and how fast will it run?"""

__version__ = "0.1.0"
