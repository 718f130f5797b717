"""The tables, typed; every query lives beside its noun (gpus.py, keys.py, models.py …)."""

from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    TypeDecorator,
    func,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Origin: TypeAlias = Literal["builtin", "user"]
JsonObject: TypeAlias = dict[str, Any]


class UtcDateTime(TypeDecorator[datetime]):
    """A moment with its zone; SQLite stores it as UTC without one, so it is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Give the database UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Give the program a moment with a zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Table(DeclarativeBase):
    """Base of all tables; constraints are named, so that migrations can change them on any database."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    # JSON, not JSONB: a saved plan must come back with its keys in the order it was answered in
    type_annotation_map = {JsonObject: JSON(), datetime: UtcDateTime()}  # noqa: RUF012


class CatalogueTable(Table):
    """One row per catalogue: a counter that moves with every change, and what it was last seeded from."""

    __tablename__ = "catalogues"

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    revision: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    builtin_digest: Mapped[str | None] = mapped_column(String(64))


class GpuTable(Table):
    """A card: its facts as JSON, in the units and under the keys of hardware_db, with source, date and aliases."""

    __tablename__ = "gpus"
    __table_args__ = (CheckConstraint("origin IN ('builtin', 'user')", name="origin"),)

    slug: Mapped[str] = mapped_column(String(80), primary_key=True)
    record: Mapped[JsonObject]
    digest: Mapped[str] = mapped_column(String(64))
    origin: Mapped[str] = mapped_column(String(8))
    version: Mapped[int] = mapped_column(server_default=text("1"))
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ModelTable(Table):
    """A model's manifest, addressed by the digest of its content; listing never reads the manifest itself.

    header_xz: what `format` says, xz-compressed: a GGUF header, or a checkpoint's configuration and tensor table.
    """

    __tablename__ = "models"
    __table_args__ = (
        CheckConstraint("origin IN ('builtin', 'user')", name="origin"),
        Index("ix_models_name_quant", "name", "quant"),
        Index(
            "uq_models_builtin_name_quant",
            "name",
            "quant",
            unique=True,
            sqlite_where=text("origin = 'builtin'"),
            postgresql_where=text("origin = 'builtin'"),
        ),
    )

    id: Mapped[str] = mapped_column(String(80), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    quant: Mapped[str] = mapped_column(String(40))
    architecture: Mapped[str] = mapped_column(String(80))
    tensor_count: Mapped[int]
    tensor_data_bytes: Mapped[int] = mapped_column(BigInteger)
    parameters: Mapped[int] = mapped_column(BigInteger)
    active_parameters: Mapped[int] = mapped_column(BigInteger)
    trained_context_tokens: Mapped[int] = mapped_column(BigInteger)
    header_xz: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    origin: Mapped[str] = mapped_column(String(8))
    source: Mapped[str | None] = mapped_column(String(2000))
    added_at: Mapped[datetime] = mapped_column(server_default=func.now())
    kind: Mapped[str] = mapped_column(String(16), server_default=text("'model'"))
    format: Mapped[str] = mapped_column(String(16), server_default=text("'gguf'"))


class ModelAliasTable(Table):
    """Another name of a model, in lower case.

    No foreign key: a built-in model is deleted and inserted again when what stands beside its content changes.
    """

    __tablename__ = "model_aliases"

    alias: Mapped[str] = mapped_column(String(200), primary_key=True)
    model_id: Mapped[str] = mapped_column(String(80))
    added_at: Mapped[datetime] = mapped_column(server_default=func.now())


class SavedPlanTable(Table):
    """A plan as it was answered: question, answer, and the rules and data it came from; never changed."""

    __tablename__ = "saved_plans"

    id: Mapped[str] = mapped_column(String(80), primary_key=True)
    request: Mapped[JsonObject]
    plan: Mapped[JsonObject]
    rules_version: Mapped[str] = mapped_column(String(80))
    data_version: Mapped[str] = mapped_column(String(80))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AuditTable(Table):
    """One change of a catalogue: who, when, what it was before and after; never changed."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_kind_entity", "kind", "entity"),)

    # SQLite counts up by itself only where a key is called INTEGER
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    actor: Mapped[str] = mapped_column(String(80), index=True)
    action: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(16))
    entity: Mapped[str] = mapped_column(String(400))
    before: Mapped[JsonObject | None]
    after: Mapped[JsonObject | None]


class ApiKeyTable(Table):
    """A key that a caller shows: never itself, only its digest; a revoked one stays, so that its name is not reused.

    Moments are null where the key does not expire, was not revoked, or was not used yet.
    """

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    digest: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[str]] = mapped_column(JSON())
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class MeasurementTable(Table):
    """One figure of one benchmark, addressed by the digest of what was read; its verdict alone may change.

    value: null where a program printed no number. request: the question it answers, null where it could not be matched.
    facts: what was read. configuration: digest of everything that decides its speed but for the build.
    """

    __tablename__ = "measurements"
    __table_args__ = (
        CheckConstraint("status IN ('accepted', 'quarantined')", name="status"),
        Index("ix_measurements_configuration", "configuration"),
        Index("ix_measurements_added_at", "added_at"),
    )

    id: Mapped[str] = mapped_column(String(80), primary_key=True)
    status: Mapped[str] = mapped_column(String(16))
    code: Mapped[str] = mapped_column(String(40))
    reason: Mapped[str] = mapped_column(String(2000))
    metric: Mapped[str] = mapped_column(String(40))
    value: Mapped[float | None]
    stddev: Mapped[float | None]
    engine: Mapped[str] = mapped_column(String(16))
    backend: Mapped[str] = mapped_column(String(40))
    model: Mapped[str | None] = mapped_column(String(400))
    rig: Mapped[str] = mapped_column(String(400))
    build: Mapped[str] = mapped_column(String(80))
    configuration: Mapped[str | None] = mapped_column(String(64))
    request: Mapped[JsonObject | None]
    facts: Mapped[JsonObject]
    source: Mapped[str | None] = mapped_column(String(400))
    added_at: Mapped[datetime] = mapped_column(server_default=func.now())


class SlackMarkTable(Table):
    """A request of Slack's that was answered, by the digest of what marks it; may be answered again once expired."""

    __tablename__ = "slack_marks"
    __table_args__ = (Index("ix_slack_marks_expires_at", "expires_at"),)

    mark: Mapped[str] = mapped_column(String(64), primary_key=True)
    expires_at: Mapped[datetime]


class RateUseTable(Table):
    """What a caller took of his rate, over all processes: the moment at which it is worked off; gone soon after that.

    policy: what the rate is for. caller: digest of a key's id or of an address.
    """

    __tablename__ = "rate_uses"
    __table_args__ = (Index("ix_rate_uses_changed_at", "changed_at"),)

    policy: Mapped[str] = mapped_column(String(16), primary_key=True)
    caller: Mapped[str] = mapped_column(String(32), primary_key=True)
    until: Mapped[datetime]
    changed_at: Mapped[datetime]
