"""Checkpoints that hosts of tests serve."""

import orjson

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def safetensors(**tensors: tuple[str, list[int], int]) -> bytes:
    """A whole safetensors file: each tensor by type, shape and size in bytes."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape, size_bytes) in tensors.items():
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size_bytes]}
        end += size_bytes
    content = orjson.dumps(table)
    return len(content).to_bytes(8, "little") + content + bytes(end)


FIRST = safetensors(**{"model.embed_tokens.weight": ("BF16", [16, 8], 256)})
SECOND = safetensors(**{"lm_head.weight": ("BF16", [16, 8], 256), "model.norm.weight": ("F32", [8], 32)})
SHARDS = {"model-00001-of-00002.safetensors": FIRST, "model-00002-of-00002.safetensors": SECOND}
INDEX = {
    "metadata": {"total_size": 544},
    "weight_map": {
        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        "lm_head.weight": "model-00002-of-00002.safetensors",
        "model.norm.weight": "model-00002-of-00002.safetensors",
    },
}
