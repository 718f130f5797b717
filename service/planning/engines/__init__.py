"""Engines that are planned for, by the name a request gives them; a new one is a package and a row here."""

from collections.abc import Mapping
from types import MappingProxyType

from service.planning.engines.engine import EnginePlanning
from service.planning.engines.llamacpp import LlamaCppPlanning
from service.planning.engines.vllm import VllmPlanning

ENGINES: Mapping[str, EnginePlanning] = MappingProxyType({"llama.cpp": LlamaCppPlanning(), "vllm": VllmPlanning()})
