"""The ways people name models of other hosts."""

import httpx2
import pytest

from service.core.problems import InvalidRequest
from service.remote.references import (
    FileAddress,
    HubFile,
    HubRepository,
    OllamaModel,
    Reference,
    hub_file,
    read_reference,
)

REPOSITORY = "bartowski/Llama-3.2-1B-Instruct-GGUF"
FILE = "Llama-3.2-1B-Instruct-Q4_K_M.gguf"
WHOLE = HubRepository(hub="huggingface", repository=REPOSITORY)
QUANT = HubRepository(hub="huggingface", repository=REPOSITORY, quant="Q4_K_M")
MAIN = HubFile(hub="huggingface", repository=REPOSITORY, revision="main", path=FILE)
QWEN = "Qwen/Qwen2.5-7B-Instruct-GGUF"

MEANINGS: dict[str, Reference] = {
    REPOSITORY: WHOLE,
    f" {REPOSITORY} ": WHOLE,
    f"{REPOSITORY}:Q4_K_M": QUANT,
    f"hf.co/{REPOSITORY}": WHOLE,
    f"hf.co/{REPOSITORY}:Q4_K_M": QUANT,
    f"huggingface.co/{REPOSITORY}:Q4_K_M": QUANT,
    f"HF.co/{REPOSITORY}:Q4_K_M": QUANT,
    f"https://huggingface.co/{REPOSITORY}": WHOLE,
    f"https://huggingface.co/{REPOSITORY}/": WHOLE,
    f"https://hf.co/{REPOSITORY}:Q4_K_M": QUANT,
    f"https://huggingface.co/{REPOSITORY}/tree/v2": HubRepository(
        hub="huggingface", repository=REPOSITORY, revision="v2"
    ),
    f"https://huggingface.co/{REPOSITORY}/resolve/main/{FILE}": MAIN,
    f"https://huggingface.co/{REPOSITORY}/resolve/main/{FILE}?download=true": MAIN,
    f"https://huggingface.co/{REPOSITORY}/blob/main/{FILE}": MAIN,
    f"https://huggingface.co/{REPOSITORY}/resolve/refs%2Fpr%2F1/sub/a%20b.gguf": HubFile(
        hub="huggingface", repository=REPOSITORY, revision="refs/pr/1", path="sub/a b.gguf"
    ),
    f"{REPOSITORY}/{FILE}": HubFile(hub="huggingface", repository=REPOSITORY, path=FILE),
    f"hf.co/{REPOSITORY}/sub/{FILE}": HubFile(hub="huggingface", repository=REPOSITORY, path=f"sub/{FILE}"),
    "meta-llama/Llama-3.3-70B-Instruct/config.json": HubFile(
        hub="huggingface", repository="meta-llama/Llama-3.3-70B-Instruct", path="config.json"
    ),
    f"modelscope.cn/{QWEN}": HubRepository(hub="modelscope", repository=QWEN),
    f"modelscope.cn/{QWEN}:Q8_0": HubRepository(hub="modelscope", repository=QWEN, quant="Q8_0"),
    f"https://www.modelscope.cn/models/{QWEN}/files": HubRepository(hub="modelscope", repository=QWEN),
    f"https://modelscope.cn/models/{QWEN}/resolve/master/a.gguf": HubFile(
        hub="modelscope", repository=QWEN, revision="master", path="a.gguf"
    ),
    f"https://modelscope.cn/models/{QWEN}/file/view/master/a.gguf": HubFile(
        hub="modelscope", repository=QWEN, revision="master", path="a.gguf"
    ),
    "llama3.2:3b": OllamaModel(repository="library/llama3.2", tag="3b"),
    "llama3.2": OllamaModel(repository="library/llama3.2", tag="latest"),
    "ollama.com/library/llama3.2:3b": OllamaModel(repository="library/llama3.2", tag="3b"),
    "https://ollama.com/someone/tuned:q8": OllamaModel(repository="someone/tuned", tag="q8"),
    "registry.ollama.ai/library/gemma3": OllamaModel(repository="library/gemma3", tag="latest"),
    "https://models.example/a/b.gguf?key=1#top": FileAddress(url=httpx2.URL("https://models.example/a/b.gguf?key=1")),
    "http://huggingface.co/a/b": FileAddress(url=httpx2.URL("http://huggingface.co/a/b")),
}
MEANINGLESS = [
    "",
    "a b",
    "/etc/passwd",
    "../x",
    "a/..",
    "owner/repo/../../x.gguf",
    "owner/repo//x.gguf",
    "owner/repo/notes.txt",
    "owner/re po",
    "owner/repo:",
    "owner/repo:Q4 K M",
    "hf.co/owner",
    "hf.co/",
    "https://huggingface.co/owner/repo/resolve/main",
    "https://huggingface.co/a/b/resolve/..%2F..%2Fapi/x.gguf",
    "https://huggingface.co/a/b/resolve/main/..%2Fx.gguf",
    "https://modelscope.cn/models",
    "ollama.com/a/b/c",
    "model:",
    "https://[::1",
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS.items(), ids=MEANINGS.keys())
def test_names_and_addresses(text: str, meaning: Reference) -> None:
    """Every usual spelling is read as what it stands for."""
    assert read_reference(text) == meaning


@pytest.mark.parametrize("text", MEANINGLESS)
def test_what_names_no_model(text: str) -> None:
    """Nothing is guessed, and no path climbs out of a repository."""
    with pytest.raises(InvalidRequest):
        read_reference(text)


@pytest.mark.parametrize("path", ["", "/", "a//b", "../a", "a/..", "a\nb", "x" * 401])
def test_paths_of_a_repository_stay_in_it(path: str) -> None:
    """A file is named by a plain relative path."""
    with pytest.raises(InvalidRequest, match="no path of a file"):
        hub_file("huggingface", REPOSITORY, path)
