"""What a plan of vLLM makes a rig do."""

from service.core.engines.vllm.speed_constants import REDUCTIONS_PER_LAYER
from service.core.estimate import Estimate
from service.planning.engines.vllm.findings import VllmFindings
from service.planning.hardware.llamacpp import PROMPT_HEAVY_RATIO
from service.planning.hardware.work import Mode, Work


def work_of(findings: VllmFindings) -> Work:
    """Read off a plan which cards work when: ranks of a stage together, stages in turn unless streams fill them."""
    choice, workload = findings.choice, findings.request.workload
    deployment, speed = choice.deployment, choice.speed
    layout = deployment.layout
    held = dict.fromkeys(range(len(findings.rig.gpus)), 0)
    held |= {rank.card: rank.weights_bytes for rank in deployment.ranks}
    mode = Mode(
        together=layout.tensor_parallel > 1,
        host_works=any(rank.offloaded_bytes for rank in deployment.ranks),
        sharing=tuple(card for card, size in held.items() if size),
        prompt_heavy=workload.prompt_tokens >= PROMPT_HEAVY_RATIO * workload.output_tokens,
        serves=True,
        n_embd=deployment.model.hidden_size,
        meetings_per_token=REDUCTIONS_PER_LAYER * len(deployment.model.layers),
        ubatch_tokens=min(deployment.run.batch.max_num_batched_tokens, workload.prompt_tokens),
    )
    rate = None
    if speed is not None:
        rate = Estimate.around(workload.parallel / speed.step_s, speed.decode_range_fraction)
    stages = 1 if workload.parallel > 1 else layout.pipeline_parallel
    return Work(
        mode=mode,
        busy_fractions=tuple(1.0 / stages if size else 0.0 for size in held.values()),
        tokens_per_s=rate,
        weights_bytes=tuple(held.values()),
    )
