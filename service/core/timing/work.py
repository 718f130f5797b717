"""What cards and host have to do for a token and for a prompt, before anything is said about how fast they are."""

from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

from service.core.types import Gpu, TensorType

Arrangement: TypeAlias = Literal["serial", "row", "tensor"]
"""One card after the other; matrices cut by rows over the cards; every layer cut over the cards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one card, or the host where gpu is None, holds and does.

    dense_bytes: weights that every token reads; expert_bytes: all routed experts it holds, of which a token reads its
    share. cache_bytes: cache and recurrent state read for one token of one stream. kernels, expert_kernels: matrices
    that a token is multiplied with, and stacks of experts among which it picks. attention_flops: of one token in all
    layers of the part; prompt_attention_flops: of the whole prompt.
    """

    gpu: Gpu | None
    dense_bytes: int = 0
    expert_bytes: int = 0
    cache_bytes: int = 0
    kernels: int = 0
    expert_kernels: int = 0
    attention_flops: float = 0.0
    prompt_attention_flops: float = 0.0

    @property
    def name(self) -> str:
        """The card's name, or the host."""
        return "host" if self.gpu is None else self.gpu.slug

    def __add__(self, other: "Part") -> "Part":
        """Both on the card of the first."""
        return Part(
            gpu=self.gpu,
            dense_bytes=self.dense_bytes + other.dense_bytes,
            expert_bytes=self.expert_bytes + other.expert_bytes,
            cache_bytes=self.cache_bytes + other.cache_bytes,
            kernels=self.kernels + other.kernels,
            expert_kernels=self.expert_kernels + other.expert_kernels,
            attention_flops=self.attention_flops + other.attention_flops,
            prompt_attention_flops=self.prompt_attention_flops + other.prompt_attention_flops,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Facts about a model's weights that times depend on.

    used_fraction: share of the routed experts that one token uses. dense_flops_per_byte, expert_flops_per_byte: two
    operations for every weight, by the bytes it is stored in. half_precision: whether most of them are 16-bit floats.
    superblocks: whether most of them are in blocks of 256, as K-quants are. type_fractions: shares of their bytes by
    tensor type.
    """

    used_fraction: float = 0.0
    dense_flops_per_byte: float
    expert_flops_per_byte: float = 0.0
    half_precision: bool = False
    superblocks: bool = False
    type_fractions: tuple[tuple[TensorType, float], ...] = ()

    def expert_fraction(self, tokens: float) -> float:
        """Expected share of the routed experts that `tokens` tokens of one step use together.

        Tokens choose independently: a given expert is missed by all of them with (1 - used share)^tokens.
        """
        return 1.0 - float((1.0 - self.used_fraction) ** tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What cards that work on the same layer tell each other, per token.

    reductions: how often they add up a hidden state. hidden_state_bytes: its size. row_bytes: inputs and results of
    all matrices, which a split by rows gathers on one card. in_one_kernel: whether the engine reduces over them in a
    kernel of its own, which only two cards have. peer_bytes_per_s: what the slowest link between two of them
    reaches, None where all they exchange passes through main memory.
    """

    reductions: int = 0
    hidden_state_bytes: int = 0
    row_bytes: int = 0
    in_one_kernel: bool = False
    peer_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """All of it: cards in the order in which they work, the host, and how they work together.

    Compared by identity, so that times can be memoised.

    queries: tokens of every stream in one step, more than one where drafts are verified. built: the date of the build,
    None for the newest known. threads: cores of the host that compute, None for those assumed. tuned: whether the
    build's products are made for matrix units, None for what builds of that date have by default. copies: how many of a
    prompt's ubatches may be under way at once.
    """

    cards: tuple[Part, ...]
    host: Part
    weights: Weights
    exchange: Exchange = Exchange()
    arrangement: Arrangement = "serial"
    streams: int = 1
    queries: int = 1
    prompt_tokens: int = 1
    ubatch_tokens: int = 512
    copies: int = 1
    flash_attention: bool = True
    built: date | None = None
    tuned: bool | None = None
    threads: int | None = None

    @property
    def expert_stretch(self) -> float:
        """How much longer a card takes for its part of the routed experts than for other weights of that size.

        Cut over cards, each expert's matrix becomes too narrow to gain anything: its part takes as long as all of it.
        Source: speed study, mixtures under tensor split reach 0.70 of a layer split's decode and 0.25 of its prefill.
        """
        return float(max(1, self.busy)) if self.arrangement == "tensor" else 1.0

    @property
    def step_tokens(self) -> int:
        """Tokens of all streams in one step."""
        return self.streams * self.queries

    @property
    def busy(self) -> int:
        """Cards that hold something."""
        return sum([1 for card in self.cards if card.dense_bytes or card.expert_bytes or card.cache_bytes])

    def experts_read(self, part: Part, tokens: float) -> float:
        """Bytes of routed experts that `part` reads in one step of `tokens` tokens, as long as they take."""
        if not part.expert_bytes:
            return 0.0
        return part.expert_bytes * self.weights.expert_fraction(tokens) * self.expert_stretch

    def read_bytes(self, part: Part, tokens: int = 1) -> int:
        """Weights that `part` reads in one step of `tokens` tokens, and the cache of all of them."""
        experts = round(part.expert_bytes * self.weights.expert_fraction(tokens)) if part.expert_bytes else 0
        return part.dense_bytes + experts + tokens * part.cache_bytes

    def read_in_step(self, part: Part) -> int:
        """Weights that `part` reads in one step, and the caches of all streams, each of them once."""
        experts = round(part.expert_bytes * self.weights.expert_fraction(self.step_tokens)) if part.expert_bytes else 0
        return part.dense_bytes + experts + self.streams * part.cache_bytes

    def flops(self, part: Part) -> float:
        """Operations of one token in the matrices of `part`."""
        weights = self.weights
        experts = part.expert_bytes * weights.used_fraction * weights.expert_flops_per_byte
        return part.dense_bytes * weights.dense_flops_per_byte + experts

    @property
    def ubatches(self) -> int:
        """Batches that the prompt is cut into."""
        return -(-self.prompt_tokens // self.ubatch_tokens)
