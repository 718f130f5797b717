"""Everything that is known when an answer about vLLM is put into words."""

from dataclasses import dataclass

from service.catalog.gpus import GpuCatalog
from service.contract.engine import VllmEngine
from service.contract.request import PlanRequest
from service.core.engines.vllm.choices import VllmChoice, choose, short_bytes
from service.core.engines.vllm.question import VllmQuestion
from service.core.engines.vllm.settings import VllmSettings
from service.core.memory import Verdict
from service.core.speed import Assumptions
from service.core.types import Rig
from service.planning.engines.llamacpp import assumptions_of, workload_of
from service.planning.engines.vllm.reference import NamedCheckpoint, checkpoint_of
from service.planning.identity import digest
from service.planning.rig import rig_of
from service.planning.sources import Sources

MOST_DEVICES = 1000
RULES_VERSION = "vLLM 0.33.0, rules 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmFindings:
    """The question, the choice that answers it, and what that means; others: further ways, the best first."""

    request: PlanRequest
    gpus: GpuCatalog
    named: NamedCheckpoint
    choice: VllmChoice
    others: tuple[VllmChoice, ...] = ()
    assumptions: Assumptions

    @property
    def rig(self) -> Rig:
        """The rig planned for."""
        return self.choice.question.rig

    @property
    def verdict(self) -> Verdict:
        """Whether it fits."""
        if not self.choice.fits:
            return "does_not_fit"
        offloaded = any(rank.offloaded_bytes for rank in self.choice.deployment.ranks)
        return "fits_with_host_offload" if offloaded else "fits"

    @property
    def shortfall_bytes(self) -> int:
        """Bytes missing over all cards; one at least where it does not fit."""
        return 0 if self.choice.fits else max(1, short_bytes(self.choice))


def findings_of(request: PlanRequest, sources: Sources) -> VllmFindings:
    """Look names up and choose; raises PlanProblem."""
    engine = request.engine
    if not isinstance(engine, VllmEngine):
        raise TypeError(f"{engine.name} is not vllm")
    gpus = sources.catalogues.gpus
    named = checkpoint_of(request.model, sources)
    rig = rig_of(request.rig, gpus, most_devices=MOST_DEVICES)
    assumptions = assumptions_of(request)
    question = VllmQuestion(
        model=named.model, rig=rig, workload=workload_of(request.workload), settings=_settings(engine)
    )
    choice, *others = choose(question, assumptions)
    return VllmFindings(
        request=request,
        gpus=gpus,
        named=named,
        choice=choice,
        others=tuple(others),
        assumptions=assumptions,
    )


def data_version(findings: VllmFindings) -> str:
    """Digest of the facts that a plan is computed from."""
    model = findings.named.model
    return digest([model.id, model.scheme, findings.named.checkpoint, findings.rig])


def _settings(engine: VllmEngine) -> VllmSettings:
    return VllmSettings(
        version=engine.version,
        date=engine.date,
        tensor_parallel_size=engine.tensor_parallel_size,
        pipeline_parallel_size=engine.pipeline_parallel_size,
        data_parallel_size=engine.data_parallel_size,
        pp_layer_partition=None if engine.pp_layer_partition is None else tuple(engine.pp_layer_partition),
        gpu_memory_utilization=engine.gpu_memory_utilization,
        max_model_len=engine.max_model_len,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        max_num_seqs=engine.max_num_seqs,
        kv_cache_dtype=engine.kv_cache_dtype,
        enforce_eager=bool(engine.enforce_eager),
        cpu_offload_gib=engine.cpu_offload_gib or 0.0,
        enable_expert_parallel=bool(engine.enable_expert_parallel),
    )
