"""What a language model's own tensors do not say about the checkpoint that vLLM loads."""

from dataclasses import dataclass

from service.core.engines.vllm.model import Vision


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Facts beside the shapes.

    vision: an image encoder that is loaded with the model. rotary_factor: linear scaling of the rotary table's length.
    has_window_rotary: sliding-window layers have a table of their own.
    Source: LinearScalingRotaryEmbedding, layers/rotary_embedding/linear_scaling_rope.py; get_rope calls of
    models/gemma3.py (vLLM 0.33.0).
    """

    vision: Vision | None = None
    rotary_factor: float = 1.0
    has_window_rotary: bool = False


NO_EXTRAS = Extras()
