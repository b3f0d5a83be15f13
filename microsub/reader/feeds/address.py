"""Another address for a followed feed: it is looked up as for a follow, and asked for with no other site's password."""

from __future__ import annotations

from collections.abc import Sequence

from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_, Sentence
from microsub.base.urls import (
    canonical_feed_url,
    mask_credentials,
    password_of,
    sign_in_of,
    with_credentials_of,
    without_credentials,
)
from microsub.discovery import HIDDEN, EnteredAddresses, Search
from microsub.feeds import FeedRecord
from microsub.model.reader import Subscription
from microsub.model.sign_ins import sign_in_headers
from microsub.reader.places import given_address
from microsub.timelines import SignedFeeds
from microsub.web.visit import PageVisit

FeedThere = tuple[str, str, str]
"""A feed that the look-up found: its address without the password, the one to show, and its title."""


async def address_entered(
    search: Search,
    entered: EnteredAddresses,
    signed: SignedFeeds,
    visit: PageVisit,
    follow: Subscription,
    record: FeedRecord,
) -> str | Sequence[FeedThere]:
    """The address to follow instead, or several feeds to choose from.

    It has the user name and password that the form gives with it, or the feed's own at the same origin, sealed.
    Raises InvalidRequest for an address without a feed, and for that of the feed itself.
    """
    user, chosen = visit.require_session().user, visit.form.text("found")
    text = chosen or visit.form.text("url")
    given = given_address(text if "://" in text else f"https://{text}")
    asked = with_credentials_of(record.url, await entered.whole(user, given))
    if not chosen:
        answer = await search.feeds(asked, visit.now)
        # A page must not choose with whose password its visitors follow a feed.
        urls = [with_credentials_of(asked, without_credentials(link.url)) for link in answer.feeds]
        if answer.is_locked and sign_in_of(asked) is not None:
            urls = [asked]  # looked up without the sign-in, which only polls send
        elif answer.is_locked:
            locked = N_("This site asks for a user name and a password. Put both before the host: {example}")
            raise InvalidRequest(Sentence(locked, example="https://name:password@site.example/feed"))
        elif not urls:
            raise InvalidRequest(answer.trouble or N_("No feed found."))
        if len(urls) > 1 or answer.is_elsewhere:
            await entered.keep_private(user, asked, urls)
            pairs = zip(urls, answer.feeds, strict=True)
            return [(without_credentials(url, HIDDEN), mask_credentials(url), one.title or "") for url, one in pairs]
        asked = urls[0]
    if (own := password_of(asked)) is not None:
        asked = await signed.address_with(user, asked, sign_in_headers(*own), visit.now)
    if canonical_feed_url(asked) in {record.url, canonical_feed_url(follow.url)}:
        raise InvalidRequest(N_("This is the feed’s address already."))
    return asked
