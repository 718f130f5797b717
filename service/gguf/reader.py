"""From the header of a GGUF file, or of all parts of a split one, to a model."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from service.core.model_kinds import implied_architecture
from service.core.problems import UnreadableModel
from service.core.types import MetadataValue, Model, Tensor
from service.gguf.file_types import quant_name
from service.gguf.header import Header, read_file_header
from service.gguf.identity import model_id
from service.gguf.limits import DEFAULT_LIMITS, ReadLimits
from service.gguf.splits import merge_parts
from service.gguf.window import Source


def read_header(source: Source, *, file_bytes: int | None = None, limits: ReadLimits = DEFAULT_LIMITS) -> Model:
    """The model that a GGUF header describes; `source` is bytes or a binary stream at its first byte.

    Reads no further than the end of the tensor table (and a read-ahead of 256 KiB).
    file_bytes: size of the whole file where known, so that tensors outside of it are refused.
    Errors: UnreadableModel; TruncatedHeader (with `missing_bytes`) where the source ends inside the header;
    a part of a split model alone is refused, naming the parts that are missing.
    """
    return read_part_headers([read_file_header(source, file_bytes=file_bytes, limits=limits)])


def read_split_headers(sources: Sequence[Source], *, limits: ReadLimits = DEFAULT_LIMITS) -> Model:
    """The one model whose parts `sources` are, in any order.

    Errors: as `read_header`, and UnreadableModel naming every part that is missing or given twice.
    """
    return read_part_headers([read_file_header(source, limits=limits) for source in sources])


def read_part_headers(parts: Sequence[Header]) -> Model:
    """The one model whose parts' headers were read already, in any order; raises as `read_split_headers`."""
    metadata, tensors = merge_parts(parts)
    return _model(metadata, tensors)


def _model(metadata: Mapping[str, MetadataValue], tensors: Mapping[str, Tensor]) -> Model:
    architecture = metadata.get("general.architecture", implied_architecture(metadata, tensors))
    if not isinstance(architecture, str) or not architecture:
        raise UnreadableModel("The header has no general.architecture, so it is no model that llama.cpp can load.")
    name = metadata.get("general.name")
    rows = tuple(tensors.values())
    return Model(
        id=model_id(metadata, rows),
        name=name if isinstance(name, str) else None,
        quant=quant_name(metadata, rows),
        architecture=architecture,
        metadata=MappingProxyType(dict(metadata)),
        tensors=rows,
        tensor_by_name=MappingProxyType(dict(tensors)),
    )
