"""GET and POST /sign-in: where reading needs a key, a browser is given it once, as a cookie."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from service.planning.access.ring import KeyRing
from service.shells.current_keys import read_in_time
from service.shells.web.rendering import render

COOKIE: Final = "rigfit_key"
router = APIRouter(include_in_schema=False)


def sign_in_page(target: str, *, status: int = 200, challenge: str | None = None, is_wrong: bool = False) -> Response:
    """The form that asks for a key; target: the page that was asked for."""
    page = render("sign_in.html", status=status, target=_own(target), is_wrong=is_wrong)
    if challenge is not None:
        page.headers["WWW-Authenticate"] = challenge
    return page


@router.get("/sign-in")
def get_sign_in(target: str = "/") -> Response:
    """The form that asks for a key."""
    return sign_in_page(target)


@router.post("/sign-in")
async def post_sign_in(
    request: Request, key: Annotated[str, Form(max_length=200)], target: Annotated[str, Form(max_length=2000)] = "/"
) -> Response:
    """Give the browser the key it showed, for this session of its; no script can read it and no other site sends it."""
    ring: KeyRing = request.app.state.keys
    await read_in_time(ring)
    if ring.holder(key.strip()) is None:
        return sign_in_page(target, status=401, is_wrong=True)
    answer = RedirectResponse(_own(target), status_code=303)
    is_secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, key.strip(), httponly=True, samesite="strict", secure=is_secure)
    return answer


def _own(target: str) -> str:
    """The page to go on to, which is one of this service's: two slashes of either kind lead to another."""
    return target if target.startswith("/") and target[1:2] not in ("/", "\\") else "/"
