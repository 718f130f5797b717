"""Recommendations: which rigs of catalogue cards do what is asked."""

from service.planning.recommend.answer import recommend

__all__ = ["recommend"]
