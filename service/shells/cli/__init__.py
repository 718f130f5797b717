"""The command `rigfit`; each command's machinery is imported when it runs, so that a plan starts at once."""

import gc
import sys
from typing import Annotated

import typer

from service.core.problems import InvalidRequest
from service.planning.process import seldom_collect
from service.shells.cli import choosing_flags, flags
from service.shells.cli.batch_commands import batch, batches, worker
from service.shells.cli.cache import cache
from service.shells.cli.plan import plan
from service.shells.cli.problems import exit_on_problem

app = typer.Typer(
    name="rigfit",
    help="Will this model fit on these GPUs, and how fast will it run?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command()(plan)
app.command()(batch)
app.command()(batches)
app.command()(worker)
app.command()(cache)


@app.command()
def compare(
    models: choosing_flags.Models = None,
    *,
    rigs: choosing_flags.Rigs = None,
    quants: choosing_flags.Quants = None,
    contexts: choosing_flags.Contexts = None,
    parallel: flags.Parallel = None,
    prompt_tokens: flags.Prompt = None,
    cached_tokens: flags.Cached = None,
    output_tokens: flags.Output = None,
    split_mode: flags.SplitMode = None,
    flash_attn: flags.FlashAttn = None,
    cache_type_k: flags.CacheTypeK = None,
    cache_type_v: flags.CacheTypeV = None,
    version: flags.Version = None,
    date: flags.Date = None,
    as_json: choosing_flags.AsJson = False,
    as_csv: choosing_flags.AsCsv = False,
    request: choosing_flags.CompareRequest = None,
) -> None:
    """Compare models, quants, rigs and contexts for one question."""
    given = dict(locals())
    from service.shells.cli.compare import compare as run  # noqa: PLC0415

    run(given)


@app.command()
def recommend(
    models: choosing_flags.Models = None,
    *,
    context_tokens: flags.Context = None,
    parallel: flags.Parallel = None,
    prompt_tokens: flags.Prompt = None,
    cached_tokens: flags.Cached = None,
    output_tokens: flags.Output = None,
    min_decode_tokens_per_s: choosing_flags.MinDecode = None,
    min_prefill_tokens_per_s: choosing_flags.MinPrefill = None,
    max_ttft_s: choosing_flags.MaxTtft = None,
    allow_host_offload: choosing_flags.AllowHostOffload = False,
    gpus: choosing_flags.Gpus = None,
    prices: choosing_flags.Prices = None,
    vendors: choosing_flags.Vendors = None,
    segments: choosing_flags.Segments = None,
    backends: choosing_flags.Backends = None,
    min_cards: choosing_flags.MinCards = None,
    max_cards: choosing_flags.MaxCards = None,
    max_kinds: choosing_flags.MaxKinds = None,
    max_power_w: choosing_flags.MaxPower = None,
    max_slots: choosing_flags.MaxSlots = None,
    max_price: choosing_flags.MaxPrice = None,
    sort_by: choosing_flags.SortBy = None,
    limit: choosing_flags.Limit = None,
    split_mode: flags.SplitMode = None,
    flash_attn: flags.FlashAttn = None,
    cache_type_k: flags.CacheTypeK = None,
    cache_type_v: flags.CacheTypeV = None,
    version: flags.Version = None,
    date: flags.Date = None,
    ram_bytes: flags.RamBytes = None,
    as_json: choosing_flags.AsJson = False,
    request: choosing_flags.RecommendRequest = None,
) -> None:
    """Find rigs of catalogue cards that run a model as fast as asked, within limits."""
    given = dict(locals())
    from service.shells.cli.recommend import recommend as run  # noqa: PLC0415

    run(given)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default RIGFIT_HOST.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port; default RIGFIT_PORT.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that answer; default RIGFIT_WORKERS, else 1.")
    ] = None,
) -> None:
    """Serve the HTTP interface."""
    from service.shells.cli.serve import serve as run  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        run(host, port, workers)


@app.command()
def migrate() -> None:
    """Bring the database to this release and seed its catalogues."""
    from service.shells.cli.migrate import migrate as run  # noqa: PLC0415

    run()


@app.command()
def openapi() -> None:
    """Print the OpenAPI document as YAML."""
    from service.shells.openapi import openapi_yaml  # noqa: PLC0415

    sys.stdout.write(openapi_yaml())


@app.command()
def gpus(search: Annotated[str, typer.Argument(help="Words of the name, vendor or architecture.")] = "") -> None:
    """List the cards of the catalogue."""
    from service.shells.cli.lists import print_gpus  # noqa: PLC0415

    print_gpus(search)


@app.command()
def rigs(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Words of the name; or: parse [FILE|-], what tools printed.", show_default=False),
    ] = None,
    gpus: Annotated[
        list[str] | None, typer.Option("--gpu", help="The cards, where what was printed does not name them.")
    ] = None,
) -> None:
    """List rigs that can be named, or read one from nvidia-smi, rocm-smi or llama-server (rigfit rigs parse)."""
    from service.shells.cli.rigs import parse, print_rigs  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        if words and words[0] == "parse":
            parse(words[1] if len(words) > 1 else "-", gpus or [])
        else:
            print_rigs(" ".join(words or ()))


@app.command()
def models(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Words of the name or architecture; or: import SOURCE…", show_default=False),
    ] = None,
    alias: Annotated[str | None, typer.Option(help="Another name for the model that is imported.")] = None,
    hf_token: Annotated[
        str | None, typer.Option("-hft", "--hf-token", help="Token for gated repositories; sent to the source's host.")
    ] = None,
) -> None:
    """List the models of the catalogue, or import some (rigfit models import PATH|URL|owner/repo:quant…)."""
    if words and words[0] == "import":
        from service.shells.cli.models_import import import_models  # noqa: PLC0415

        with exit_on_problem(as_json=False):
            import_models(words[1:], alias=alias, hf_token=hf_token)
        return
    if alias or hf_token:
        with exit_on_problem(as_json=False):
            raise InvalidRequest("--alias and --hf-token belong to an import: rigfit models import SOURCE…")
    from service.shells.cli.lists import print_models  # noqa: PLC0415

    print_models(" ".join(words or ()))


measurements = typer.Typer(no_args_is_help=True, help="What benchmarks measured: import it, list it, withdraw it.")
app.add_typer(measurements, name="measurements")


@measurements.command("import")
def import_measurements(
    files: Annotated[
        list[str], typer.Argument(help="What llama-bench, llama-batched-bench or vllm bench printed; - for stdin.")
    ],
    model: Annotated[str | None, typer.Option(help="The model, where the output does not tell.")] = None,
    gpu: Annotated[list[str] | None, typer.Option(help="The cards in order, where the output does not tell.")] = None,
    backend: Annotated[str | None, typer.Option(help="What drove the cards, where several could have.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it comes from, kept beside it.")] = None,
) -> None:
    """Bring figures of benchmarks into the database; predictions of what they are about follow them."""
    from service.contract.measurements import MeasurementHints  # noqa: PLC0415
    from service.contract.validation import validate_as  # noqa: PLC0415
    from service.shells.cli.measurements import import_files  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        hints = {"model": model, "gpu": gpu or [], "backend": backend, "source": source}
        import_files(files, validate_as(MeasurementHints, hints))


@measurements.command("list")
def list_measurements(
    status: Annotated[str | None, typer.Option(help="accepted or quarantined.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Part of a card's slug.")] = None,
    model: Annotated[str | None, typer.Option(help="Part of a model's name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    ids: Annotated[bool, typer.Option("--ids", help="Their ids, for rigfit measurements withdraw.")] = False,
) -> None:
    """List what was measured, the newest first, and what became of it."""
    from service.contract.measurements import MeasurementQuery  # noqa: PLC0415
    from service.contract.validation import validate_as  # noqa: PLC0415
    from service.shells.cli.measurements import list_measurements as run  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        query = validate_as(MeasurementQuery, {"status": status, "gpu": gpu, "model": model, "limit": limit})
        run(query, with_ids=ids)


@measurements.command("withdraw")
def withdraw_measurement(
    measurement_id: Annotated[str, typer.Argument(help="As rigfit measurements list --ids shows it.")],
    reason: Annotated[str, typer.Option(help="Kept beside it.")],
) -> None:
    """Learn nothing from a measurement any more, for good; those that contradicted it are judged again."""
    from service.shells.cli.measurements import withdraw  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        withdraw(measurement_id, reason)


keys = typer.Typer(no_args_is_help=True, help="API keys: who may change catalogues, and read where that needs one.")
app.add_typer(keys, name="keys")


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="Whose key it is; the audit trail shows it.")],
    scope: Annotated[list[str], typer.Option(help="What it may do: read, cards, models, measurements, audit.")],
    days: Annotated[int | None, typer.Option(help="How long it is valid; for ever where not said.")] = None,
) -> None:
    """Make a key and show it, once."""
    from service.shells.cli.keys import create  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        create(name, scope, days)


@keys.command("list")
def list_keys() -> None:
    """List every key that was made, with what it may do and when it was last used."""
    from service.shells.cli.keys import print_keys  # noqa: PLC0415

    print_keys()


@keys.command("revoke")
def revoke_key(name: Annotated[str, typer.Argument(help="The key's name.")]) -> None:
    """Let a key open nothing any more."""
    from service.shells.cli.keys import revoke  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        revoke(name)


def main() -> None:
    """Run the command line."""
    seldom_collect()
    try:
        app()
    finally:
        # Python ends with a look for cycles among all that there is: a seventh of the time of a plan
        gc.freeze()
