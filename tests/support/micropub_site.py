"""A user's own site that accepts posts by Micropub and is independent of the product."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.provider import Person, Provider, provider
from tests.support.web import Answer, Asked, json_reply, publisher


@dataclass
class MicropubSite:
    """Accepts requests with its provider's token for creating posts, or gives the reply that a test sets."""

    provider: Provider
    owner: Person = field(init=False)
    taken: list[Asked] = field(default_factory=list)
    replies: list[Answer] = field(default_factory=list)

    async def answer(self, request: Asked) -> Answer:
        """Publish a post."""
        self.taken.append(request)
        if self.replies:
            return self.replies.pop(0)
        token = self.provider.good(request.bearer)
        if token is None:
            return json_reply({"error": "unauthorized"}, 401)
        if "create" not in token.scope:
            return json_reply({"error": "insufficient_scope"}, 403)
        return Answer(b"", 201, [("Location", f"https://ann.example/posts/{len(self.taken)}")])

    @property
    def forms(self) -> Sequence[dict[str, str]]:
        """The received posts."""
        return [request.form for request in self.taken]


@asynccontextmanager
async def micropub_site(name: str) -> AsyncIterator[MicropubSite]:
    """The site of a person with this name, and their provider, which allows all requests."""
    async with provider() as people:
        made = MicropubSite(people)
        async with publisher(made.answer) as place:
            made.owner = people.person(name, micropub=f"{place.base}/micropub")
            yield made
