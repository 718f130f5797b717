"""The best way to run a model on a rig: what llama.cpp can do is enumerated, judged by the workload, and placed.

`judge` says how long a request takes, `layer_split` finds the fastest division of layers over cards, `learned` keeps
what placements tell about compute buffers, `on_cards`, `offload` and `joint_cards` make candidates, and `best` puts
them together. Every candidate that is chosen is placed by the engine's own rules.
"""
