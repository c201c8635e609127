"""Logging in with a token: it becomes a cookie that no script can read, and every request is checked as any other.

Nothing is checked here. The next request carries the cookie; where the guard refuses it, it counts one more wrong
token and leads back here.
"""

from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlencode

from fastapi import FastAPI, Request
from starlette.responses import FileResponse, RedirectResponse, Response

from ..security.policy import COOKIE, LOGIN, LOGIN_STYLE, SecurityPolicy
from ..security.tokens import id_of

_YEAR = 365 * 86_400
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
}
_WRONG = "That token is not one of this server's, or too many were wrong."
_STYLE = Path(__file__).parent / "static" / "login.css"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · Brimful</title><link rel="stylesheet" href="{style}">
</head>
<body>
<main>
<h1>Brimful</h1>
<p>This server needs a token. <code>brimful serve</code> showed one when it first started; <code>brimful serve
--new-token</code> makes another.</p>
<form method="post" action="{action}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" autofocus required
 aria-describedby="wrong">
<p id="wrong" role="alert">{wrong}</p>
<button type="submit">Log in</button>
</form>
</main>
</body>
</html>
"""


def install(app: FastAPI, policy: SecurityPolicy) -> None:
    """Adds the page and what its form does."""

    async def show(request: Request) -> Response:
        wrong = (
            "That token is not one of this server's, or too many were wrong." if "wrong" in request.query_params else ""
        )
        return _page(request.query_params.get("next", "/"), wrong)

    async def enter(request: Request) -> Response:
        given = parse_qs((await request.body()).decode(errors="replace"))
        token = given.get("token", [""])[0].strip()
        onward = _own_path(request.query_params.get("next", "/"))
        if id_of(token) is None:
            return _page(onward, "A token looks like brimful_…_…; that is not one.", 401)
        response = RedirectResponse(onward, 303, _HEADERS)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, token, max_age=_YEAR, httponly=True, samesite="lax", secure=secure)
        return response

    async def leave(request: Request) -> Response:
        response = RedirectResponse(LOGIN if policy.require_token else "/", 303, _HEADERS)
        response.delete_cookie(COOKIE)
        return response

    async def style(request: Request) -> Response:
        return FileResponse(_STYLE, media_type="text/css")

    app.add_route(LOGIN, show, ["GET"])
    app.add_route(LOGIN, enter, ["POST"])
    app.add_route("/logout", leave, ["POST"])
    app.add_route(LOGIN_STYLE, style, ["GET"])


def _page(onward: str, wrong: str, status: int = 200) -> Response:
    action = f"{LOGIN}?{urlencode({'next': _own_path(onward)})}"
    text = _PAGE.format(style=LOGIN_STYLE, action=escape(action), wrong=escape(wrong))
    return Response(text, status, _HEADERS, "text/html; charset=utf-8")


def _own_path(path: str) -> str:
    """A path of this server; never an address of another."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"
