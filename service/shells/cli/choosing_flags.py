"""Flags of `rigfit compare` and `rigfit recommend` that no plan has."""

from typing import Annotated

import typer

Models = Annotated[list[str] | None, typer.Argument(help="Models, by catalogue name:quant.", show_default=False)]
Rigs = Annotated[list[str] | None, typer.Option("--rig", help="Cards of one rig, separated by commas; repeated.")]
Quants = Annotated[list[str] | None, typer.Option("--quant", help="A quant of every model; repeated.")]
Contexts = Annotated[list[int] | None, typer.Option("-c", "--ctx-size", help="A context in tokens; repeated.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")]
CompareRequest = Annotated[
    str | None, typer.Option("--request", metavar="FILE|-", help="Answer one CompareRequest in JSON.")
]
MinDecode = Annotated[float | None, typer.Option("--min-decode", help="Tokens per second for each stream.")]
MinPrefill = Annotated[float | None, typer.Option("--min-prefill", help="Prompt tokens per second.")]
MaxTtft = Annotated[float | None, typer.Option("--max-ttft", help="Seconds to the first token.")]
AllowHostOffload = Annotated[
    bool, typer.Option("--allow-host-offload", help="A part of the model may lie in main memory.")
]
Gpus = Annotated[list[str] | None, typer.Option("--gpu", help="A card to choose from; repeated.")]
Prices = Annotated[
    list[str] | None, typer.Option("--price", metavar="GPU=PRICE", help="What a card costs you; repeated.")
]
Vendors = Annotated[list[str] | None, typer.Option("--vendor", help="Only of this vendor; repeated.")]
Segments = Annotated[list[str] | None, typer.Option("--segment", help="Only of this segment; repeated.")]
Backends = Annotated[list[str] | None, typer.Option("--backend", help="Only driven by this one; repeated.")]
MinCards = Annotated[int | None, typer.Option("--min-cards", help="Fewest cards.")]
MaxCards = Annotated[int | None, typer.Option("--max-cards", help="Most cards, up to 8.")]
MaxKinds = Annotated[int | None, typer.Option("--max-kinds", help="1: no mixed rigs.")]
MaxPower = Annotated[float | None, typer.Option("--max-power", help="Most watts of board power.")]
MaxSlots = Annotated[int | None, typer.Option("--max-slots", help="Most slots.")]
MaxPrice = Annotated[float | None, typer.Option("--max-price", help="Most that the cards may cost.")]
SortBy = Annotated[
    str | None,
    typer.Option("--sort", metavar="KEY", help="price, power_w, cards, decode_tokens_per_s, …_per_w, …_per_price."),
]
Limit = Annotated[int | None, typer.Option("--limit", help="How many rigs to name.")]
RecommendRequest = Annotated[
    str | None, typer.Option("--request", metavar="FILE|-", help="Answer one RecommendRequest in JSON.")
]
