"""Everything that is known of one model, as the contract shows it."""

from service.catalog.model_index import ResolvedModel
from service.catalog.model_rows import ModelRow
from service.catalog.models import ModelCatalog
from service.contract.catalogue import ArchitectureRule, ModelDocument
from service.core.architectures.hparams import Hparams, read_hparams
from service.core.kv_rates import kv_rates
from service.core.model_kinds import KINDS
from service.core.model_roles import bytes_by_role, bytes_by_type
from service.core.problems import PlanProblem
from service.core.types import Model
from service.planning.identity import RULES_VERSION

_NO_CHECKPOINTS = "llama.cpp does not load checkpoints: convert it to GGUF"


def model_document(catalogue: ModelCatalog, resolved: ResolvedModel) -> ModelDocument:
    """Show one row: what it is, whether it can be planned, where its bytes are, what its caches cost."""
    row = resolved.row
    document = ModelDocument(
        reference=catalogue.reference_to(row),
        name=row.name,
        quant=row.quant,
        id=row.id,
        kind=row.kind,
        what="a checkpoint of a language model" if row.format == "safetensors" else KINDS[row.kind].what,
        format=row.format,
        planned=False,
        not_planned=_NO_CHECKPOINTS if row.format == "safetensors" else KINDS[row.kind].not_planned,
        architecture=row.architecture,
        architecture_rule=None,
        tensor_count=row.tensor_count,
        tensor_data_bytes=row.tensor_data_bytes,
        parameters=row.parameters or None,
        active_parameters=row.active_parameters or None,
        trained_context_tokens=row.trained_context_tokens or None,
        bytes_by_role={},
        bytes_by_type={},
        kv_bytes_per_token={},
        kv_constant_bytes={},
        aliases=list(row.aliases),
        source=row.source,
        notes=list(resolved.notes),
    )
    if row.format == "safetensors":
        return document.model_copy(update={"bytes_by_type": _checkpoint_types(catalogue, row)})
    return document.model_copy(update=_measured(catalogue.model(row), document.not_planned))


def _measured(model: Model, not_planned: str | None) -> dict[str, object]:
    """Fields that need the tensors; for what is planned also the rules of its architecture and its caches."""
    fields: dict[str, object] = {"bytes_by_role": bytes_by_role(model), "bytes_by_type": bytes_by_type(model)}
    if not_planned is not None:
        return fields
    try:
        hp = read_hparams(model)
    except PlanProblem as refused:
        return {**fields, "not_planned": refused.detail}
    rates = kv_rates(model)
    return {
        **fields,
        "planned": True,
        "architecture_rule": _architecture_rule(hp),
        "kv_bytes_per_token": {name: rate.per_token_bytes for name, rate in rates.items()},
        "kv_constant_bytes": {name: rate.constant_bytes for name, rate in rates.items()},
    }


def _architecture_rule(hp: Hparams) -> ArchitectureRule:
    return ArchitectureRule(
        name=hp.arch.name,
        memory=hp.arch.memory,
        layers=hp.n_layer,
        draft_layers=hp.n_layer_nextn,
        windowed_layers=sum(hp.is_swa[: hp.n_layer]),
        window_tokens=hp.n_swa if any(hp.is_swa) else None,
        recurrent_layers=sum(hp.is_recr[: hp.n_layer]),
        experts=hp.n_expert,
        rules_version=RULES_VERSION,
    )


def _checkpoint_types(catalogue: ModelCatalog, row: ModelRow) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for tensor in catalogue.checkpoint(row).tensors:
        sizes[tensor.dtype.lower()] = sizes.get(tensor.dtype.lower(), 0) + tensor.size_bytes
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))
