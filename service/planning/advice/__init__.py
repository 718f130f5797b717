"""What would be better, or is worth knowing, as codes with their numbers; one function per advice."""

from collections.abc import Sequence

from service.contract.plan import Advice
from service.planning.advice.cards import faster_card, joint_cards, more_cards, row_split
from service.planning.advice.drafts import draft_gain
from service.planning.advice.memory import experts_on_last_card, pipeline_copies, quantised_cache
from service.planning.advice.one_card import single_fast_gpu
from service.planning.advice.server import server_defaults
from service.planning.advice.spill import spill_cliff
from service.planning.alternatives import RunnerUp
from service.planning.findings import Findings
from service.planning.fit import fit_advice


def advice_of(findings: Findings, others: Sequence[RunnerUp]) -> list[Advice]:
    """Every advice; others: what the choice can be compared with."""
    return [
        *single_fast_gpu(findings),
        *fit_advice(findings),
        *more_cards(findings, others),
        *faster_card(findings),
        *joint_cards(findings, others),
        *row_split(findings),
        *draft_gain(findings),
        *quantised_cache(findings, others),
        *spill_cliff(findings, others),
        *pipeline_copies(findings),
        *experts_on_last_card(findings),
        *server_defaults(findings),
    ]
