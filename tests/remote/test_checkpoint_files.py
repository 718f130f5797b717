"""Checkpoints of Hugging Face are read like GGUF files: their headers, by ranges."""

from typing import Any

import pytest

from service.core.checkpoints import Checkpoint
from service.remote.fetching import Fetched, fetch
from service.remote.listing import ListedModel, Listing
from service.remote.problems import UnreadableRemoteModel
from service.remote.references import read_reference
from tests.remote.checkpoints import CONFIG, FIRST, INDEX, SECOND, SHARDS
from tests.remote.model_host import ModelHost, document, ranged
from tests.remote.test_listing import hf_tree

FOLDER = "/hf/owner/name/resolve/main"


def serve(host: ModelHost, config: object = CONFIG, index: object = None, **files: bytes) -> None:
    host.answers[f"{FOLDER}/config.json"] = document(config)
    if index is not None:
        host.answers[f"{FOLDER}/model.safetensors.index.json"] = document(index)
    for name, content in files.items():
        host.answers[f"{FOLDER}/{name}"] = ranged(content)


def checkpoint(host: ModelHost) -> Checkpoint:
    fetched = fetch(host.hosts(), read_reference("owner/name/config.json"))
    assert isinstance(fetched, Fetched)
    assert isinstance(fetched.content, Checkpoint)
    assert fetched.name == "name"
    return fetched.content


def test_a_checkpoint_of_several_files(host: ModelHost) -> None:
    """The index names them, each header is read, no weight is."""
    serve(host, index=INDEX, **SHARDS)
    read = checkpoint(host)
    assert [(tensor.name, tensor.dtype, tensor.shape) for tensor in read.tensors] == [
        ("lm_head.weight", "BF16", (16, 8)),
        ("model.embed_tokens.weight", "BF16", (16, 8)),
        ("model.norm.weight", "F32", (8,)),
    ]
    assert (read.architecture, read.quant, read.trained_context_tokens) == ("LlamaForCausalLM", "bfloat16", 131072)
    assert (read.parameters, read.tensor_data_bytes) == (264, 544)


def test_a_checkpoint_of_one_file(host: ModelHost) -> None:
    """Without an index the one usual name is tried."""
    serve(host, **{"model.safetensors": SECOND})
    assert [tensor.name for tensor in checkpoint(host).tensors] == ["lm_head.weight", "model.norm.weight"]


def test_a_configuration_alone(host: ModelHost) -> None:
    """Shapes can be derived from it later; its id is another than with tensors."""
    serve(host)
    alone = checkpoint(host)
    assert alone.tensors == ()
    serve(host, **{"model.safetensors": SECOND})
    assert checkpoint(host).id != alone.id


def test_how_files_are_cut_is_no_part_of_the_identity(host: ModelHost) -> None:
    """The same tensors in other files, in another order, are the same checkpoint."""
    serve(host, index=INDEX, **SHARDS)
    first = checkpoint(host).id
    swapped = {"model-00001-of-00002.safetensors": SECOND, "model-00002-of-00002.safetensors": FIRST}
    serve(host, config=dict(reversed(CONFIG.items())), index=INDEX, **swapped)
    assert checkpoint(host).id == first


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a configuration that is a list": ({"config": []}, "is no JSON object"),
    "no architecture": ({"config": {"torch_dtype": "float16"}}, "names no architecture"),
    "an index without a map": ({"index": {"metadata": {}}}, "no weight_map"),
    "files outside the folder": ({"index": {"weight_map": {"a": "../a.safetensors"}}}, "no weight_map"),
    "files of another kind": ({"index": {"weight_map": {"a": "a.bin"}}}, "no weight_map"),
    "a file that is missing": (
        {"index": INDEX, "model-00001-of-00002.safetensors": FIRST},
        "missing: model-00002-of-00002.safetensors",
    ),
    "a tensor that is missing": (
        {"index": {"weight_map": {"x": "model-00001-of-00002.safetensors"}}, **SHARDS},
        "in no file, such as 'x'",
    ),
    "a tensor twice": (
        {
            "index": {"weight_map": {"lm_head.weight": "a.safetensors", "model.norm.weight": "b.safetensors"}},
            "a.safetensors": SECOND,
            "b.safetensors": SECOND,
        },
        "in two files",
    ),
    "a file that is cut off": ({"model.safetensors": FIRST[:-1]}, "the file at"),
}


@pytest.mark.parametrize(("served", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_together_is_refused(host: ModelHost, served: dict[str, Any], said: str) -> None:
    """Configuration, index and files must agree."""
    serve(host, **served)
    with pytest.raises(UnreadableRemoteModel, match=said):
        checkpoint(host)


def test_a_repository_with_a_checkpoint_lists_it(host: ModelHost) -> None:
    """config.json stands for the files whose sizes it has."""
    host.answers["/hf/api/models/owner/name/tree/main"] = hf_tree(
        [("config.json", 600), ("model-00001-of-00002.safetensors", 5), ("model-00002-of-00002.safetensors", 6)]
    )
    listing = fetch(host.hosts(), read_reference("owner/name"))
    assert isinstance(listing, Listing)
    assert listing.models == (ListedModel(file="config.json", size_bytes=11, parts=2),)
