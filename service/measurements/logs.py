"""What the lines around a table say of cards, build and model, where the table itself does not.

Source: ggml_cuda_init (ggml/src/ggml-cuda/ggml-cuda.cu), ggml_vk_print_gpu_info (ggml-vulkan.cpp),
ggml_metal_device_init (ggml-metal), ggml_backend_sycl_print_sycl_devices (ggml-sycl.cpp), llama_model::print_info
(src/llama-model.cpp:2061) and print_footer (tools/llama-bench/llama-bench.cpp:2117), llama.cpp in llama-cpp-python
0.3.36, and earlier versions of the same lines.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from service.measurements.runs import ModelSeen, Run
from service.measurements.values import printed_bytes, printed_count

_DEVICES: Final = (
    ("cuda", re.compile(r"\s*Device (\d+): (.+?), compute capability ")),
    ("rocm", re.compile(r"\s*Device (\d+): (.+?), (?:gfx\w+|AMD)")),
    ("vulkan", re.compile(r"ggml_vulkan: (\d+) = (.+?) \((?!R\)|TM\))[^()]*(?:\([^()]*\)[^()]*)*\) \|")),
    ("vulkan", re.compile(r"(?:ggml_vulkan|Vulkan)(\d+): (.+?) \| uma:")),
    ("metal", re.compile(r"ggml_metal\w*: (?:found device|GPU name|picking default device):()\s*(Apple .+)")),
    ("sycl", re.compile(r"\|\s*(\d+)\|\s*\[level_zero:gpu:\d+\]\|\s*(.+?)\|")),
)
_FOOTER: Final = re.compile(r"build: ([0-9a-f]{6,40}|unknown) \((\d+)\)\s*")
_LOG_BUILD: Final = re.compile(r"(?:main: )?build(?: =|:) (\d+) \(([0-9a-f]{6,40})\)")
_PRINTED_INFO: Final = re.compile(
    r"(?:llm_load_print_meta|print_info|llama_model_loader): (?:- kv +\d+: +)?"
    r"(arch|model type|model ftype|file type|model params|model size|file size|general\.name)\s+(?:str\s+)?= (.+?)\s*"
)
_LOADING: Final = re.compile(r"llama_model_loader: loaded meta data with ")
_TYPE_COUNT: Final = re.compile(r"llama_model_loader: - type +(\w+): +(\d+) tensors")
_TOLERATED: Final = re.compile(
    r"\s*(?:$|```|~~~|[$>%#\u276f\u279c] |PS [A-Z]:|[A-Z]:\\|\S+@\S+[:~ ].*[$#%]|"
    r"(?:[\w./\\-]*llama-(?:batched-)?bench\b)|"
    r"(?:ggml_|llama_|llm_load|load_|print_info|main:|common_|sched_|system_info|register_backend|build:|build =|"
    r"warning:|init_tokenizer|create_tensor|set_abort|clip_|srv |slot |get_memory|found \d+ |Found \d+ |\s*Device \d+:|"
    r"\|\s*(?:ID|--|\s)*\||\[SYCL\]|\|\s*\|\s*\||Running with|\.{3,}|~llama|graph_reserve|\+-{3,}|-{3,}|={3,}))"
)


_NOTHING: Final = ModelSeen()


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the lines so far said; gpus by backend in the order of their numbers."""

    gpus: tuple[tuple[str, str], ...] = ()
    build: tuple[str, int] | None = None
    model: ModelSeen = _NOTHING
    architecture: str = ""
    size_class: str = ""
    file_type: str = ""

    def with_line(self, line: str) -> "Around | None":
        """The same with what a line adds; None where it says nothing of the kind."""
        if _LOADING.match(line):
            # the lines behind it are about another model
            return Around(gpus=self.gpus, build=self.build)
        for backend, pattern in _DEVICES:
            if match := pattern.search(line):
                known = () if match[1] in ("", "0") else self.gpus
                return replace(self, gpus=(*known, (backend, match[2].strip())))
        if match := _FOOTER.fullmatch(line.strip()):
            return replace(self, build=(match[1], int(match[2])))
        if match := _LOG_BUILD.search(line):
            return replace(self, build=(match[2], int(match[1])))
        if match := _TYPE_COUNT.fullmatch(line.strip()):
            counts = (*self.model.tensors_by_type, (match[1].lower(), int(match[2])))
            return replace(self, model=replace(self.model, tensors_by_type=counts))
        if match := _PRINTED_INFO.fullmatch(line.strip()):
            return self._with_fact(match[1], match[2])
        return None

    def _with_fact(self, key: str, value: str) -> "Around":
        model = self.model
        match key:
            case "arch":
                return replace(self, architecture=value)
            case "model type":
                return replace(self, size_class=value)
            case "model ftype" | "file type":
                return replace(self, file_type=value)
            case "model params":
                return replace(self, model=replace(model, parameters=printed_count(value)))
            case "general.name":
                return replace(self, model=replace(model, name=value))
            case _:
                size = printed_bytes(value.partition(" (")[0])
                return self if size is None else replace(self, model=replace(model, size_bytes=size))

    def described(self) -> ModelSeen:
        """The model that was loaded last, described as llama_model_desc does."""
        words = " ".join(word for word in (self.architecture, self.size_class, self.file_type) if word)
        return replace(self.model, description=words or None, name=None)


def is_footer(line: str) -> bool:
    """Whether a line ends what one run of llama-bench printed and names its build."""
    return _FOOTER.fullmatch(line.strip()) is not None


def is_tolerated(line: str) -> bool:
    """Whether a line is what terminals and logs have around a table."""
    return _TOLERATED.match(line) is not None


def completed(run: Run, around: Around) -> Run:
    """A run with what the lines around it say, where it does not say itself."""
    setup = run.setup
    printed = {backend.lower() for backend in setup.backends}
    gpus, backends = setup.gpus, setup.backends
    if gpus is None and around.gpus and "cpu" not in printed:
        gpus = tuple(name for _, name in around.gpus)
        backends = backends or (around.gpus[0][0],)
    model = setup.model
    if model == _NOTHING:
        model = around.described()
    build = around.build or (None, None)
    filled = replace(
        setup,
        gpus=gpus,
        backends=backends,
        model=model,
        build_commit=setup.build_commit or build[0],
        build_number=setup.build_number if setup.build_number is not None else build[1],
    )
    return replace(run, setup=filled)
