"""GET /docs: every endpoint, to read and to try."""

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

from service.shells.rest.security_headers import documentation_policy

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def get_documentation(request: Request) -> HTMLResponse:
    """Show the OpenAPI document as a page; its script comes from Swagger UI's usual host, nothing else may run."""
    root = request.scope.get("root_path", "").rstrip("/")
    page = get_swagger_ui_html(openapi_url=f"{root}{request.app.openapi_url}", title=f"{request.app.title}: API")
    page.headers["Content-Security-Policy"] = documentation_policy(bytes(page.body).decode())
    return page
