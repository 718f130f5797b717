"""Every kind of problem that the contract names: title, HTTP status and what it means."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """One row of the contract's list of problems."""

    slug: str
    title: str
    status: int
    description: str


_ROWS = (
    ("contradiction", "Contradiction", 409, "Two parts of the request exclude each other."),
    ("forbidden", "Forbidden", 403, "The key that was sent has not the scope that this address needs."),
    ("forbidden-host", "Forbidden host", 403, "Models are not fetched from this host."),
    ("header-too-large", "Header too large", 431, "The request's address and header fields are longer than is read."),
    ("idempotency-key-reused", "Idempotency key reused", 422, "This Idempotency-Key stands for another upload."),
    ("internal-error", "Internal error", 500, "The service failed; the same request may be tried again."),
    ("invalid-request", "Invalid request", 422, "The request is not JSON, or a field has no such meaning or value."),
    ("method-not-allowed", "Method not allowed", 405, "This address does not answer that HTTP method."),
    ("model-host-timeout", "Model host timeout", 504, "The host of the model did not answer in time."),
    ("model-host-unavailable", "Model host unavailable", 502, "The host of the model could not be reached."),
    ("not-found", "Not found", 404, "There is nothing at this address."),
    ("not-ready", "Not ready", 503, "The service cannot answer yet: its database or catalogue is not available."),
    ("precondition-failed", "Precondition failed", 412, "It was changed since it was read: read it again, then edit."),
    ("precondition-required", "Precondition required", 428, "An edit says by If-Match which version it was made from."),
    ("rate-limited", "Rate limited", 429, "Too many requests; wait before the next."),
    ("request-timeout", "Request timeout", 408, "The request stopped before its end."),
    ("took-too-long", "Took too long", 503, "The request asks for more plans than are answered in one request's time."),
    ("too-large", "Too large", 413, "The request body is longer than this service accepts."),
    ("unauthorized", "Unauthorized", 401, "This address needs a valid credential."),
    ("unfinished", "Unfinished", 409, "The batch has no answers: it is not finished, was cancelled, or failed."),
    ("unknown-engine", "Unknown engine", 404, "No engine has this name."),
    ("unknown-gpu", "Unknown GPU", 404, "No card in the catalogue has exactly this name."),
    ("unknown-model", "Unknown model", 404, "No model in the catalogue has exactly this name and quantisation."),
    ("unknown-rig", "Unknown rig", 404, "No rig that can be named has exactly this name."),
    ("unreadable-model", "Unreadable model", 422, "The model file's header cannot be read or makes no sense."),
    ("unsupported", "Unsupported", 409, "The engine would refuse this, or it is not planned here."),
    ("unsupported-media", "Unsupported media type", 415, "The request body has a media type that is not read here."),
)

PROBLEM_KINDS = {
    slug: ProblemKind(slug=slug, title=title, status=status, description=description)
    for slug, title, status, description in _ROWS
}
