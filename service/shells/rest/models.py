"""The catalogue of models: GET and POST /models, GET, PATCH and DELETE /models/{ref}."""

from typing import Annotated, Any

from anyio import from_thread
from fastapi import APIRouter, Depends, Header, Request, Response

from service.catalog.models import ModelCatalog
from service.contract.catalogue import ModelDocument, ModelListing, QuantSummary
from service.contract.imports import EXAMPLE_IMPORT, ModelEdit, RepositoryListing
from service.contract.validation import parse_import
from service.planning.imports import Kept, import_remote, keep_model
from service.planning.model_documents import model_document
from service.planning.model_edits import change_model, model_tag, remove_user_model
from service.planning.planner import Planner
from service.shells.rest.gpus import EDIT_PROBLEMS, ETAG, IfMatch, Search
from service.shells.rest.media import FORM, JSON, is_form, is_json, require_json, unsupported_media
from service.shells.rest.problems import responses
from service.shells.rest.state import DatabaseState, PlannerState, RemoteState
from service.shells.rest.uploads import read_upload

router = APIRouter(tags=["catalogue"])

_IMPORT_PROBLEMS = (
    "contradiction", "forbidden-host", "invalid-request", "model-host-timeout", "model-host-unavailable", "not-ready",
    "rate-limited", "too-large", "unauthorized", "unknown-model", "unreadable-model", "unsupported",
    "unsupported-media",
)  # fmt: skip
_FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
            "description": "A GGUF file or its first megabytes; all parts of a split one.",
        },
        "alias": {"type": "string", "minLength": 1, "description": "Another name for the model."},
    },
}
_IMPORT_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        JSON: {"schema": {"$ref": "#/components/schemas/ImportRequest"}, "example": EXAMPLE_IMPORT},
        FORM: {"schema": _FORM_SCHEMA},
    },
}
_LOCATION = {"Location": {"description": "Address of the model.", "schema": {"type": "string"}}}


@router.get(
    "/models",
    summary="List models",
    response_description="Models by name.",
    responses=responses("invalid-request", "not-ready"),
)
def get_models(planner: PlannerState, search: Search = "") -> list[ModelListing]:
    """List the models, by name, with their quantisations."""
    catalogue = planner.catalogues.models
    return [
        ModelListing(
            name=summary.name,
            kind=summary.kind,
            architecture=summary.architecture,
            parameters=summary.parameters,
            active_parameters=summary.active_parameters,
            trained_context_tokens=summary.trained_context_tokens,
            quants=[
                QuantSummary(
                    reference=catalogue.reference_to(row),
                    quant=row.quant,
                    id=row.id,
                    tensor_data_bytes=row.tensor_data_bytes,
                )
                for row in summary.rows
            ],
        )
        for summary in catalogue.search(search)
    ]


@router.get(
    "/models/{reference:path}",
    summary="One model",
    response_description="What it is and what it needs.",
    response_model=ModelDocument,
    responses=responses("not-ready", "unknown-model") | {200: {"headers": ETAG}},
)
def get_model(reference: str, planner: PlannerState) -> Response:
    """Show one model at one quantisation, by `name:quant`, by a bare name, by an alias or by its id."""
    return _shown(planner.catalogues.models, reference)


@router.patch(
    "/models/{reference:path}",
    summary="Rename a model, or set its aliases",
    response_description="The model as it is now.",
    response_model=ModelDocument,
    responses=responses(*EDIT_PROBLEMS, "unknown-model", "unsupported-media") | {200: {"headers": ETAG}},
    dependencies=[Depends(require_json)],
)
def patch_model(
    reference: str, edit: ModelEdit, planner: PlannerState, database: DatabaseState, if_match: IfMatch = None
) -> Response:
    """Give a model that was brought in another name, or any model the aliases it has from now on."""
    model_id = change_model(planner.catalogues, database, reference, edit, if_match=if_match)
    return _shown(planner.catalogues.models, model_id)


@router.delete(
    "/models/{reference:path}",
    summary="Remove a model",
    response_description="It is removed.",
    status_code=204,
    responses=responses(*(slug for slug in EDIT_PROBLEMS if slug != "too-large"), "unknown-model"),
)
def delete_model(reference: str, planner: PlannerState, database: DatabaseState, if_match: IfMatch = None) -> None:
    """Remove a model that was brought in, with its aliases. Plans of it that were kept stay."""
    remove_user_model(planner.catalogues, database, reference, if_match=if_match)


@router.post(
    "/models",
    summary="Bring a model into the catalogue",
    response_description="The model, which is in the catalogue now.",
    status_code=201,
    response_model=ModelDocument,
    responses=responses(*_IMPORT_PROBLEMS)
    | {
        200: {
            "model": ModelDocument | RepositoryListing,
            "description": "The model, which was there already, or the files of a repository to choose from.",
        },
        201: {"headers": _LOCATION | ETAG},
    },
    openapi_extra={"requestBody": _IMPORT_BODY},
)
def post_models(
    request: Request,
    planner: PlannerState,
    database: DatabaseState,
    remote: RemoteState,
    authorization: Annotated[
        str | None, Header(description="Credential for the model's host; sent to it alone and kept nowhere.")
    ] = None,
) -> Response:
    """Read a model's header from another host or an upload, never its weights, and keep it under its digest."""
    catalogues = planner.catalogues
    if is_form(request):
        with remote.slot():
            upload = read_upload(request)
        kept = keep_model(
            catalogues,
            database,
            upload.model,
            name=upload.file_name.removesuffix(".gguf"),
            source=f"upload of {upload.file_name[:200]}",
            alias=upload.alias,
        )
        return _kept(planner, kept)
    if not is_json(request):
        raise unsupported_media(request, JSON, FORM)
    asked = parse_import(from_thread.run(request.body))
    found = import_remote(remote, catalogues, database, asked, authorization=authorization)
    if isinstance(found, RepositoryListing):
        return Response(found.model_dump_json(), media_type=JSON)
    return _kept(planner, found)


def _kept(planner: Planner, kept: Kept) -> Response:
    answer = _shown(planner.catalogues.models, kept.id, 201 if kept.is_new else 200)
    answer.headers["Location"] = f"/models/{kept.id}"
    return answer


def _shown(catalogue: ModelCatalog, reference: str, status: int = 200) -> Response:
    found = catalogue.resolve(reference)
    document = model_document(catalogue, found)
    return Response(
        document.model_dump_json(), status_code=status, media_type=JSON, headers={"ETag": model_tag(found.row)}
    )
