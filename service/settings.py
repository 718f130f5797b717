"""What an operator can set, through environment variables that start with RIGFIT_ or a file named .env."""

from functools import cache
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.builtin import state_folder
from service.core.units import MIB


def embedded_database_url() -> str:
    """SQLAlchemy URL of the SQLite file used where no other database is named."""
    return f"sqlite:///{state_folder() / 'rigfit.sqlite3'}"


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

    host: str = "127.0.0.1"
    """Address that `rigfit serve` listens on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """TCP port that `rigfit serve` listens on; 0 takes a free one."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe event that is logged."""

    log_format: Literal["console", "json"] = "console"
    """Lines for people or one JSON object a line for collectors."""

    max_request_bytes: PositiveInt = 1 * MIB
    """Largest request body; a longer one is refused as `too-large`."""

    max_database_connections: PositiveInt = 10
    """Connections to PostgreSQL that one process keeps open; SQLite ignores it."""

    catalogue_refresh_s: PositiveFloat = 2.0
    """How long a process may answer from its copy of the catalogue before it asks the database for a newer revision."""


@cache
def settings() -> Settings:
    """Give the settings of this process, read at the first call."""
    return Settings()
