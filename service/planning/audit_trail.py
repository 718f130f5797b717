"""The audit trail as the contract shows it."""

from dataclasses import asdict

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.contract.audit import AuditDocument, AuditQuery, AuditTrail
from service.store.audit import AuditFilter, audit_entries


def audit_trail(database: Engine, query: AuditQuery) -> AuditTrail:
    """A page of changes, the newest first."""
    wanted = AuditFilter(kind=query.kind, entity=query.entity, actor=query.actor, before_id=query.before_id)
    with Session(database) as session:
        # one more than a page tells whether there is another
        found = audit_entries(session, wanted, limit=query.limit + 1)
    page = found[: query.limit]
    return AuditTrail(
        changes=[AuditDocument.model_validate(asdict(entry)) for entry in page],
        next_before_id=page[-1].id if len(found) > len(page) else None,
    )
