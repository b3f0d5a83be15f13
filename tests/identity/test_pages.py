"""Headers, cookies, templates, static files; and forms, which only work if sent from our own pages."""

from __future__ import annotations

import ast
import re
import zipfile
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Route

import microsub
from microsub.accounts.sessions import Sessions
from microsub.base.errors import StoreUnavailable
from microsub.base.urls import is_loopback
from microsub.web.headers import PublicAddress, origin, own_path, page_headers
from microsub.web.routes import is_form, takes_upload
from microsub.web.visit import PageSite
from tests.support.readers import instance
from tests.support.visitor import PASSWORD, Visitor, begin_session, fields_of, tried
from tests.support.world import World

SECRET = "s" * 43
WEB = Path(microsub.__file__).parent / "identity" / "pages"


def test_a_policy_takes_no_source_that_ends_its_directive() -> None:
    """A value that contains another directive is one example."""
    for source in ["https://a.example; script-src *", "https://a.example\r\nx: y", "", "a b", "https://ä.example"]:
        with pytest.raises(ValueError, match="no source"):
            page_headers(form_to=[source])


@pytest.mark.parametrize("path", sorted((WEB / "templates").glob("*.html")), ids=lambda path: path.name)
def test_templates_hold_no_script_style_or_address_of_others(path: Path) -> None:
    """They work under the policy, and load nothing from other hosts."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:", text)
    assert not re.search(r"""(src|action)=["']https?://""", text)
    assert "|safe" not in text.replace(" ", "")


@pytest.mark.parametrize("path", sorted((WEB / "templates").glob("*.html")), ids=lambda path: path.name)
def test_every_form_that_posts_has_a_token(path: Path) -> None:
    """The macro for forms adds it."""
    if path.name != "forms.html":
        assert 'method="post"' not in path.read_text(encoding="utf-8")


async def test_static_files_are_served_with_their_type(ann: Visitor, server: World) -> None:
    """Browsers cache them, because their address changes with their content; other files can't be read."""
    pages = PageSite.at(Sessions(server.redis), server.clock, None).pages
    shown = await ann.get(pages.static("pages.css"))
    assert shown.status == 200
    assert shown.response.headers["content-type"].startswith("text/css")
    assert "immutable" in shown.response.headers["cache-control"]
    former = await ann.get("/static/0123456789ab/pages.css")
    assert (former.status, former.response.headers["cache-control"]) == (200, "no-cache")
    for path in ("..%2f..%2fapp.py", "0/..%2f..%2fapp.py", "0/none.css", "none.css"):
        assert (await ann.get(f"/static/{path}")).status == 404


async def test_two_servers_on_one_machine_have_cookies_of_their_own(real_redis) -> None:
    """Browsers send cookies to all ports of a host, and keep one per name, so our names contain the port."""
    async with instance(real_redis, base_url=None) as made:
        here, there = (Visitor(made.app, f"http://127.0.0.1:{port}") for port in (8001, 8002))
        there.client.cookies.jar = here.client.cookies.jar  # the same browser
        for name, visitor in (("ann", here), ("bob", there)):
            await made.accounts.add_user(name, f"https://{name}.example/", made.now)
            await made.parts.local.set_password(name, PASSWORD, made.now)
            assert (await tried(visitor, name)).location == "/"
        for name, visitor in (("ann", here), ("bob", there)):
            assert f"signed in as {name}" in (await visitor.get("/account")).text
        assert set(here.cookies) == {
            f"microsub-{name}-{port}" for name in ("session", "browser", "devices") for port in (8001, 8002)
        }
        await here.submit(await here.get("/account"), "/sign-out")
        assert "microsub-session-8001" not in here.cookies
        assert "signed in as bob" in (await there.get("/account")).text


async def test_a_page_for_users_redirects_to_the_sign_in(ann: Visitor) -> None:
    """The sign-in leads back to the page, with its query."""
    shown = await ann.get("/account?x=1%262")
    assert shown.status == 303
    assert shown.location == "/sign-in?next=%2Faccount%3Fx%3D1%25262"


@pytest.mark.parametrize(
    ("method", "error", "status", "words"),
    [
        ("all", RuntimeError("secret detail"), 500, ""),
        ("find", StoreUnavailable("redis://user:secret@host is away"), 503, "Try again"),
    ],
    ids=["a bug", "without Redis"],
)
async def test_an_error_is_a_page_without_details(
    server: World, ann: Visitor, signed_in, monkeypatch, method: str, error: Exception, status: int, words: str
) -> None:
    """Only the log has the details. The user's cookie isn't deleted."""
    await signed_in(ann)

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(server.parts.sessions), method, fail)
    shown = await ann.get("/account")
    assert shown.status == status
    assert words in shown.text
    assert "secret" not in shown.response.text
    assert "__Host-microsub-session" in ann.cookies


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/sign-out", 405), ("/static/none.css", 404)])
async def test_a_browser_gets_a_page_where_there_is_nothing(ann: Visitor, path: str, status: int) -> None:
    """Programs still get JSON."""
    page = await ann.get(path, accept="text/html,*/*;q=0.8")
    assert page.status == status
    assert page.title
    assert "default-src 'none'" in page.response.headers["content-security-policy"]
    assert (await ann.get(path)).response.json()["error"] in {"not_found", "invalid_request"}


class TestAddresses:
    """`microsub.web.headers`."""

    @pytest.mark.parametrize(
        "host", ["localhost", "localhost:8080", "127.0.0.1:80", "127.9.9.9", "[::1]:8080", "[::1]"]
    )
    def test_this_machine(self, host: str) -> None:
        """Sign-in works on loopback without a setting."""
        assert is_loopback(host)
        assert PublicAddress(None).base(host) == f"http://{host}"

    async def test_an_issuer_is_in_lower_case(self, real_redis) -> None:
        """The spelling in the request makes no difference, because apps compare issuers exactly."""
        async with instance(real_redis, base_url=None) as made:
            visitor = Visitor(made.app, "http://127.0.0.1:8080")
            asked = "/.well-known/oauth-authorization-server"
            reply = await visitor.client.get(asked, headers={"host": "LOCALHOST:8080"})
            assert reply.json()["issuer"] == "http://localhost:8080"

    @pytest.mark.parametrize(
        "host",
        [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "evil.example/127.0.0.1",
            "10.0.0.1",
            "localhost.evil.example",
            "localhost:x",
            "0.0.0.0",
            "127.0.0.1:80/x",
            "localhost?",
            "[::2]",
            "[::1].evil.example",
            "[::1]evil.example:80",
            "[127.0.0.1]",
            "localhost:80:80",
            "localhost:",
            "localhost:65536",
        ],
    )
    def test_others(self, host: str) -> None:
        """The client chooses the `Host` header, so nothing depends on it."""
        assert not is_loopback(host)
        assert PublicAddress(None).base(host) is None

    def test_the_configured_address_precedes_the_host_header(self) -> None:
        """Behind a proxy, `Host` may have any value."""
        address = PublicAddress("https://a.example/reader")
        assert address.base("evil.example") == "https://a.example/reader"
        assert address.prefix == "/reader"

    def test_an_origin_is_written_as_browsers_do(self) -> None:
        """Origins are in lower case without a default port."""
        assert origin("https://A.example:443/x") == "https://a.example"
        assert origin("http://[::1]:8080/x") == "http://[::1]:8080"

    @pytest.mark.parametrize("text", ["/", "/account", "/auth?a=b&c=%20d", "/a//b"])
    def test_own_paths_pass(self, text: str) -> None:
        """The query is kept."""
        assert own_path(text) == text


async def test_under_a_path_links_and_forms_name_it(real_redis) -> None:
    """The proxy serves the server below /reader, and removes that from the path."""
    async with instance(real_redis, base_url="https://a.example/reader") as made:
        await made.accounts.add_user("ann", "https://ann.example/", made.now)
        visitor = Visitor(made.app, "https://a.example")
        await begin_session(visitor, made)
        page = await visitor.get("/account")
        fields = fields_of(page.form("/reader/sign-out"))
        assert (await visitor.post("/sign-out", fields)).title == "You are signed out"
        assert "https://a.example/reader/microsub/YOUR-NAME" in (await visitor.get("/connect")).text


def test_templates_and_static_files_are_part_of_the_wheel(tmp_path: Path) -> None:
    """They work in a wheel that `pip` installs, without a checkout."""
    builders = pytest.importorskip("hatchling.builders.wheel", reason="hatchling comes with the extra 'build'")
    (made,) = builders.WheelBuilder(str(WEB.parents[2])).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(made) as wheel:
        packed = set(wheel.namelist())
    files = [path for folder in ("templates", "static") for path in (WEB / folder).iterdir() if path.is_file()]
    assert {str(path.relative_to(WEB.parents[2])) for path in files} <= packed


@given(st.text(max_size=60) | st.text(alphabet="/\\.:@?#\t\n evil%2f", max_size=30).map(lambda text: "/" + text))
def test_own_paths_stay_on_this_server(text: str) -> None:
    """Browsers ignore tabs and newlines, and read a backslash as a slash."""
    if own_path(text) is not None:
        read = re.sub(r"[\t\r\n]", "", text).strip().replace("\\", "/")
        assert urlsplit(urljoin("https://reader.example/sign-in", read)).netloc == "reader.example"


END_ALL = "/account/sessions/end-all"


async def test_every_form_refuses_what_has_no_token(server: World, ann: Visitor, signed_in) -> None:
    """The test sends a request to each form's route."""
    await signed_in(ann)
    forms = [route for route in server.app.routes if isinstance(route, Route) and is_form(route)]
    assert len(forms) >= 3
    for route in forms:
        shown = await ann.post(re.sub(r"\{.*?\}", "x", route.path), {"session": "x"})
        assert shown.status == 403, route.path
        assert "form" in shown.text.lower()
    assert len(await server.parts.sessions.all("ann")) == 1


async def test_every_post_of_the_pages_is_a_form(server: World) -> None:
    """No route of the pages accepts a POST without a check of the form's token."""
    for route in server.app.routes:
        if isinstance(route, Route) and "POST" in (route.methods or ()):
            assert is_form(route) or takes_upload(route), route.path


async def test_a_form_without_origin_needs_its_token(ann: Visitor, signed_in) -> None:
    """Very old browsers send neither header; the form's token is enough."""
    await signed_in(ann)
    page = await ann.get("/account")
    shown = await ann.post(END_ALL, fields_of(page.form(END_ALL)), sec_fetch_site="", origin="")
    assert shown.status == 200


async def test_a_token_ends_with_the_session(ann: Visitor, signed_in) -> None:
    """A form from before a sign-in can't be sent after it."""
    await signed_in(ann)
    fields = fields_of((await ann.get("/account")).form(END_ALL))
    await signed_in(ann)
    assert (await ann.post(END_ALL, fields)).status == 403


async def test_without_cookies_the_page_has_a_message(ann: Visitor, signed_in) -> None:
    """A browser without cookies can't send forms."""
    await signed_in(ann)
    fields = fields_of((await ann.get("/account")).form(END_ALL))
    ann.client.cookies.clear()
    shown = await ann.post(END_ALL, fields)
    assert shown.status == 403
    assert "llow cookies" in shown.text


async def test_bodies_other_than_forms_are_refused(ann: Visitor, signed_in) -> None:
    """Other content types and bodies that are too large are refused."""
    await signed_in(ann)
    for body, kind, status in [(b"{}", "application/json", 400), (b"a=" + b"b" * 70_000, None, 413)]:
        headers = {"content-type": kind or "application/x-www-form-urlencoded"}
        response = await ann.client.post(END_ALL, content=body, headers=headers)
        assert response.status_code == status


async def test_tokens_differ_from_page_to_page(ann: Visitor, signed_in) -> None:
    """A constant token could be guessed from the sizes of compressed pages."""
    await signed_in(ann)
    first, second = await ann.get("/account"), await ann.get("/account")
    assert fields_of(first.form(END_ALL))["form_token"] != fields_of(second.form(END_ALL))["form_token"]


WRAPPERS = {"argon2id", "webauthn"}
"""Modules that wrap a slow library; the face loads them at the first use of one of their names."""


@pytest.mark.parametrize(
    "path",
    sorted(one for one in WEB.parent.rglob("*.py") if one.stem not in WRAPPERS | {"__init__"}),
    ids=lambda path: path.name,
)
def test_slow_libraries_load_on_first_use(path: Path) -> None:
    """Importing them takes a second, which a start of the server should not wait for."""
    nodes = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.Import | ast.ImportFrom)]
    loaded = {alias.name for node in nodes for alias in node.names} | {getattr(node, "module", "") for node in nodes}
    parts = {part for name in loaded if name for part in name.split(".")}
    assert not parts & {"fido2", "argon2", "cryptography", "jinja2", *WRAPPERS}
