"""Somebody's own site, as far as it takes posts by Micropub; it knows nothing of us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.provider import Person, Provider, provider
from tests.support.web import Answer, Asked, json_reply, publisher


@dataclass
class MicropubSite:
    """Takes what comes with a token that its owner's provider made to create posts, or replies what a test wants."""

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
        """The posts that came."""
        return [request.form for request in self.taken]


@asynccontextmanager
async def micropub_site(name: str) -> AsyncIterator[MicropubSite]:
    """The site of a person of that name, with their provider, which lets in what it is asked for."""
    async with provider() as people:
        made = MicropubSite(people)
        async with publisher(made.answer) as place:
            made.owner = people.person(name, micropub=f"{place.base}/micropub")
            yield made
