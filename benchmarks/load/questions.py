"""Explicit questions: nothing is left for the planner to choose."""

import json
import random
from collections.abc import Iterator

MODELS = (
    "llama-3.3-70b:Q4_K_M", "llama-3-8b:Q4_K_M", "qwen3-32b:Q4_K_M", "gemma-3-27b:Q4_K_M", "gpt-oss-120b:MXFP4",
    "mistral-small-24b:Q4_K_M", "llama-2-13b:Q6_K", "llama-3.2-3b:Q8_0",
)  # fmt: skip
CARDS = ("rtx-3090", "rtx-4090", "rtx-5090", "h100-sxm5-80gb")
LONGEST_CONTEXT_TOKENS = 65_536


def explicit_question(model: str, cards: int, card: str, context_tokens: int) -> dict[str, object]:
    """A question that states how the model is split, where its layers go and which types its cache has."""
    return {
        "model": model,
        "rig": {"gpus": [f"{cards}x {card}"]},
        "workload": {"context_tokens": context_tokens, "parallel": 1},
        "engine": {
            "split_mode": "layer" if cards > 1 else "none",
            "n_gpu_layers": "all",
            "flash_attn": True,
            "cache_type_k": "f16",
            "cache_type_v": "f16",
            **({"tensor_split": [1] * cards} if cards > 1 else {}),
        },
    }


def repeated_question() -> dict[str, object]:
    """The one question that is asked again and again."""
    return explicit_question(MODELS[0], 4, CARDS[-1], 8192)


def different_questions(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Questions of which no two are equal: models, cards and contexts at random, 1 to 4 cards."""
    draw = random.Random(seed)  # noqa: S311 - the same questions in every run
    asked: set[str] = set()
    while len(asked) < count:
        question = explicit_question(
            draw.choice(MODELS), draw.randint(1, 4), draw.choice(CARDS), draw.randrange(512, LONGEST_CONTEXT_TOKENS)
        )
        key = json.dumps(question)
        if key not in asked:
            asked.add(key)
            yield question
