"""The few files that pages refer to, from memory."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from microsub.identity.web.site import Site


def routes(site: Site) -> list[Route]:
    """The route of this module."""

    async def static(request: Request) -> Response:
        file = site.pages.files.get(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        headers = {"etag": f'"{file.mark}"', "cache-control": "public, max-age=604800"}
        headers |= {"content-type": file.content_type, "x-content-type-options": "nosniff"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(file.body, headers=headers)

    return [Route("/static/{name}", static, methods=["GET"])]
