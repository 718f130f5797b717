"""What an operator can set, through environment variables that start with RIGFIT_ or a file named .env."""

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.builtin import embedded_database_path
from service.core.units import GIB, MIB


def embedded_database_url() -> str:
    """SQLAlchemy URL of the SQLite file used where no other database is named."""
    return f"sqlite:///{embedded_database_path()}"


def _names(value: object) -> object:
    """Names separated by commas."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Names: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]


def _origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what no browser would send as an origin, and what would therefore allow none."""
    wrong = [origin for origin in origins if origin != "*" and not re.fullmatch(r"https?://[^/?#\s]+", origin)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no origin: https://host, with a port where it is not the usual one")
    return origins


RateText: TypeAlias = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}/(second|minute|hour)$")]


class Settings(BaseSettings):
    """Settings of one process; read once, never changed."""

    model_config = SettingsConfigDict(
        env_prefix="RIGFIT_",
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )

    database_url: str = Field(default_factory=embedded_database_url)
    """SQLAlchemy URL: `postgresql+psycopg://…` in production, an SQLite file by default."""

    cache_folder: Path | None = None
    """Folder that compute graphs are kept in for other processes and the next start; by default the user's cache."""

    cache_bytes: NonNegativeInt = 256 * MIB
    """Room for them; the least recently used go first. 0 keeps none."""

    host: str = "127.0.0.1"
    """Address that `rigfit serve` listens on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """TCP port that `rigfit serve` listens on; 0 takes a free one."""

    workers: PositiveInt = 1
    """Processes that `rigfit serve` answers with; each keeps a copy of the catalogue, some 150 MiB."""

    drain_s: NonNegativeFloat = 1.0
    """After SIGTERM: how long requests are still taken while `/readyz` says 503, so that balancers turn away."""

    finish_s: PositiveInt = 30
    """After that: how long requests under way may take before they are broken off."""

    keep_alive_s: PositiveInt = 65
    """How long a connection without a request is kept; more than a proxy in front keeps its own."""

    request_head_s: PositiveFloat = 10.0
    """Longest time that the head of a request may take to come; then the connection is closed."""

    request_body_s: PositiveFloat = 30.0
    """Longest time that a request's body may take, and a second more for every 500 bytes; then it is answered 408."""

    answer_s: PositiveFloat = 60.0
    """Time after which a request begins no further plan and is answered `took-too-long`; tables are not limited so."""

    response_read_s: PositiveFloat = 30.0
    """Longest time that a client may read nothing of an answer that is being sent; then the connection is cut."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe event that is logged."""

    log_format: Literal["console", "json"] = "console"
    """Lines for people or one JSON object a line for collectors."""

    access_log: bool = True
    """Whether each request is logged, with its id, status and time, in `log_format`; at level `info`."""

    metrics: bool = True
    """Whether `GET /metrics` answers Prometheus; a proxy in front should keep it from the outside."""

    traces: bool = False
    """Whether `rigfit serve` exports spans by OTLP over HTTP, as `OTEL_…` variables say; needs the extra `tracing`."""

    max_request_bytes: PositiveInt = 1 * MIB
    """Largest request body; a longer one is refused as `too-large`."""

    max_upload_bytes: PositiveInt = 4 * GIB
    """Largest upload of a model file; it is read as it comes and not kept, its first megabytes are enough."""

    max_batch_bytes: PositiveInt = 16 * MIB
    """Largest list, CSV or workbook of questions; a longer one is refused as `too-large`."""

    max_batch_rows: PositiveInt = 50_000
    """Most questions of one list, CSV or workbook; more are refused as `too-large`."""

    batch_processes: PositiveInt | None = None
    """Processes that answer lists, CSV and workbooks, started for the first large one; by default one per processor;
    `rigfit worker` starts as many."""

    max_batches: PositiveInt = 1000
    """Most batches that wait in the queue or are worked on; more are refused as `rate-limited`."""

    batch_kept_s: PositiveFloat = 7 * 24 * 3600.0
    """How long a batch's upload and answers are kept after its end; workers delete them then."""

    worker_silence_s: PositiveFloat = 30.0
    """How long a worker may say nothing before its rows are given to others."""

    worker_metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """TCP port of `RIGFIT_HOST` at which `rigfit worker` answers Prometheus, one for each; by default it does not."""

    model_hosts: Names = (
        "huggingface.co",
        "*.huggingface.co",
        "*.hf.co",
        "modelscope.cn",
        "*.modelscope.cn",
        "registry.ollama.ai",
        "dd20bb891979d25aebc8bec07b2b3bbc.r2.cloudflarestorage.com",
    )
    """Hosts that models are fetched from, by https at public addresses: names, or `*.name` for all below one."""

    private_model_hosts: Names = ()
    """Origins of the own network (`http://models.internal:8080`) that models are fetched from as they stand."""

    hugging_face_url: str = "https://huggingface.co"
    """Address of Hugging Face or a mirror of it; its host must be among those that models are fetched from."""

    modelscope_url: str = "https://www.modelscope.cn"
    """Address of ModelScope or a mirror of it."""

    ollama_url: str = "https://registry.ollama.ai"
    """Address of Ollama's registry or a mirror of it."""

    model_fetch_s: PositiveFloat = 60.0
    """Longest time that reading one model's headers from other hosts may take, attempts included."""

    max_model_fetches: PositiveInt = 8
    """Models that one process reads at once, from other hosts or uploads; more are refused as `rate-limited`."""

    require_key_to_read: bool = False
    """Whether asking and listing need an API key too; a browser is asked for one at /sign-in."""

    writes_without_key: Literal["local", "never", "always"] = "local"
    """Who may change catalogues without an API key: `local`, this machine itself until the first key is made."""

    rate_limit_per_address: RateText | None = None
    """What one address may ask without a key: `600/minute`; an explicit plan is one unit. All processes of a PostgreSQL
    count together, up to what passes within two seconds; on SQLite each counts alone."""

    rate_limit_per_key: RateText | None = None
    """What one key may ask: `6000/minute`, counted likewise; requests with a key do not count for their address."""

    trusted_proxies: Names = ()
    """Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed; by default none is."""

    cors_origins: Annotated[Names, AfterValidator(_origins)] = ()
    """Origins whose pages may ask from a browser: `https://tools.example`; by default none, and `*` is every one."""

    behind_tls: bool = False
    """Whether people reach the service by HTTPS alone; browsers are told to insist on it for a year."""

    public_url: str | None = None
    """Address at which people reach the service, for links in Slack; that of each request where it is not set."""

    slack_signing_secret: SecretStr | None = None
    """Secret that Slack signs its requests with; set it with the two below and the service answers in Slack."""

    slack_bot_token: SecretStr | None = None
    """Token (`xoxb-…`) of the app's bot, as the workspace gave it."""

    slack_team_id: str | None = None
    """Workspace (`T…`) that is answered; every other one is refused."""

    slack_api_url: str = "https://slack.com/api/"
    """Address of Slack's Web API or a proxy of it."""

    max_database_connections: PositiveInt = 10
    """Connections to PostgreSQL that one process keeps open; SQLite ignores it."""

    catalogue_refresh_s: PositiveFloat = 0.5
    """How long a process may answer from its copy of the catalogue before it asks the database for a newer revision."""

    @model_validator(mode="after")
    def _slack_is_whole(self) -> Self:
        """Refuse a Slack app of which only some settings are known."""
        parts = (self.slack_signing_secret, self.slack_bot_token, self.slack_team_id)
        if any(parts) and not all(parts):
            raise ValueError("slack_signing_secret, slack_bot_token and slack_team_id are set together or not at all")
        return self


@cache
def settings() -> Settings:
    """Give the settings of this process, read at the first call."""
    return Settings()
