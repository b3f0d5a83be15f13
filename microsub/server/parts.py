"""The use cases of a process with the web application, built from its stores."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial

from microsub.accounts import (
    Activity,
    ActivityNotes,
    ForeignTokens,
    PendingStore,
    RequestRate,
    ServiceTokens,
    Sessions,
    UserQuotas,
)
from microsub.admin import Figures, Health, Hours, ServerState, Survey, server_state
from microsub.articles import ArticleStage, PageReader
from microsub.backend_file import Configuration
from microsub.base.sealing import KeyFile
from microsub.base.settings import Settings
from microsub.cache import CachingFetcher
from microsub.configuration.effective import Status
from microsub.configuration.model import IdentitySettings, Registration
from microsub.discovery import Directory, EnteredAddresses, PickedPosts, Search
from microsub.fetch import Fetcher, HostPace, SpacedFetcher
from microsub.hub import TopicChanges, Topics
from microsub.identity import (
    Admission,
    AppChannels,
    ClientApps,
    ConsentLimit,
    ForeignTokenCheck,
    IndieAuthProvider,
    Introspection,
    LocalSignIn,
    PageDoctor,
    Profiles,
    SignInClient,
    SignInLimits,
    UserAddresses,
    profile_page,
)
from microsub.micropub import Media, Posting, Sources
from microsub.model.reader import Credential
from microsub.outputs import OutputContents
from microsub.parsing.pool import ParsePool
from microsub.polling import PollOnRequest
from microsub.post_store import Posts
from microsub.posts import Imported
from microsub.reader.answering.answers import Answers
from microsub.reader.reading.images import Images
from microsub.redis.attempts import AttemptCounts
from microsub.redis.foresight import Foresight
from microsub.search import IndexReader, PostSearch
from microsub.server.jobs import STAGES, article_stage, figures, letter_retry, store_of_posts, survey
from microsub.server.stores import (
    Stores,
    callback_base,
    catch_up,
    feed_lists,
    following,
    ingest,
    output_contents,
    sources,
    user_export,
)
from microsub.server.topics import hub_topics
from microsub.timelines import Following, ItemCache, Listeners, ReaderViews
from microsub.transfer import FeedLists, ListImports, UserExport
from microsub.webmention import MentionReceiver, MentionStore
from microsub.webpush import Devices
from microsub.websub import Callbacks, SubscriptionStore, push_state
from microsub.work import DeadLetter, DeadLetters


async def _ignored(_user: str, _now: float) -> None:
    """Do nothing: without a hub, there are no subscribers."""


class WebParts:
    """The use cases, each created at its first use. Routes get those that they need by argument.

    Searches fetch with `searching`, articles with `pages`, all others with `plain`; only the first has a cache.
    `parser` reads strangers' pages.
    `index` is this machine's index of posts, if search is on. `token_used` is called for each use of a token.
    """

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        config: Configuration,
        cache: ItemCache,
        listeners: Listeners,
        parser: ParsePool,
        *,
        searching: CachingFetcher,
        pages: Fetcher,
        plain: Fetcher,
    ) -> None:
        self.settings = settings
        self.stores = stores
        self.config = config
        self.cache = cache
        self.listeners = listeners
        self.parser = parser
        self.searching = searching
        self.pages = pages
        self.plain = plain
        self.index: IndexReader | None = None
        self.foresight = Foresight(stores.redis)
        self.clock = stores.clock
        self.token_used: Callable[[Credential, float], None] = lambda _credential, _now: None
        self._private = bool(settings.allow_private_networks)
        self._hosted_profile = partial(profile_page, settings.public_url)

    # --- identity

    @cached_property
    def quotas(self) -> UserQuotas:
        """The quotas of users."""
        rate = RequestRate(AttemptCounts(self.stores.redis))
        return UserQuotas(self.stores.effective, self.stores.accounts, rate)

    @cached_property
    def sessions(self) -> Sessions:
        """The sessions of all users."""
        return Sessions(self.stores.redis, self._hosted_profile)

    @cached_property
    def _addresses(self) -> UserAddresses:
        return UserAddresses(self.stores.accounts, self._hosted_profile)

    @cached_property
    def local(self) -> LocalSignIn:
        """Sign-in by password and passkey. Close it at the end."""
        return LocalSignIn(self.stores.redis, self.sessions, self._addresses)

    @cached_property
    def profiles(self) -> Profiles:
        """The reader of providers and endpoints on pages of users."""
        return Profiles(self.plain, self.parser, private=self._private, own=self.settings.public_url)

    @cached_property
    def signing_in(self) -> SignInClient:
        """Sign-in by other providers."""

        async def registration() -> Registration:
            return (await self.stores.effective.instance()).registration

        admission = Admission(self.stores.accounts, self.profiles, registration, private=self._private)
        pending, limits = PendingStore(self.stores.redis), SignInLimits(self._addresses)
        return SignInClient(pending, self.profiles, self.plain, admission, limits, private=self._private)

    @cached_property
    def provider(self) -> IndieAuthProvider:
        """Our own IndieAuth server."""
        apps = ClientApps(self.plain, self.parser)
        return IndieAuthProvider(self.stores.redis, apps, partial(self.quotas.most, "tokens"), self._hosted_profile)

    @cached_property
    def consents(self) -> ConsentLimit:
        """The limit on visits of the consent page."""
        return ConsentLimit(AttemptCounts(self.stores.redis))

    @cached_property
    def app_channels(self) -> AppChannels:
        """The channels into which users let apps post."""
        return AppChannels(self.stores.channels, self.sources, self.quotas, self.changed)

    @cached_property
    def verification(self) -> ForeignTokenCheck:
        """The check of tokens of other providers."""
        vouching = Introspection(self.plain, self.profiles, own=self.settings.public_url, private=self._private)

        async def settings() -> IdentitySettings:
            return (await self.stores.effective.instance()).identity

        return ForeignTokenCheck(ForeignTokens(self.stores.redis), vouching, settings)

    @cached_property
    def doctor(self) -> PageDoctor:
        """The check of users' pages."""
        return PageDoctor(self.plain, self.parser, private=self._private)

    # --- feeds and channels

    @cached_property
    def reading(self) -> ReaderViews:
        """Timelines, which are filled first for users who were away. Close it at the end."""
        stores = self.stores
        return ReaderViews(
            stores.redis,
            stores.channels,
            stores.feeds,
            stores.items,
            self.cache,
            style=stores.effective.unread_style,
            catch_up=catch_up(stores),
            seen=ActivityNotes(self.activity.note),
        )

    @cached_property
    def articles(self) -> ArticleStage:
        """The full texts that readers ask for."""
        return article_stage(self.stores, PageReader(SpacedFetcher(self.pages, HostPace()), self.parser))

    @cached_property
    def following(self) -> Following:
        """The use case that connects channels with feeds."""
        return following(self.stores)

    @cached_property
    def search(self) -> Search:
        """The search for feeds."""
        directory = Directory(self.stores.feeds, self.stores.effective.instance)
        return Search(self.searching, directory, self.parser)

    @cached_property
    def entered(self) -> EnteredAddresses:
        """The addresses that users have entered."""
        return EnteredAddresses(self.stores.redis, KeyFile(self.stores.key_file))

    @cached_property
    def picked(self) -> PickedPosts:
        """Posts that users pick from anywhere."""
        stores, known = self.stores, Imported(self.stores.redis)
        followed = stores.channels.followed_feeds
        return PickedPosts(self.search, self.entered, known, stores.items, stores.room, stores.feeds, followed)

    @cached_property
    def post_search(self) -> PostSearch | None:
        """The search of a user's posts; None if search is off."""
        return self._post_search(visits=True)

    def _post_search(self, *, visits: bool) -> PostSearch | None:
        """A search with limits of its own, so that requests for output feeds don't block their users' searches."""
        if self.index is None:
            return None
        stores = self.stores
        return PostSearch(stores.redis, stores.channels, stores.feeds, self.reading, self.index, visits=visits)

    @cached_property
    def feed_lists(self) -> FeedLists:
        """The import and export of lists of feeds."""
        return feed_lists(self.settings, self.stores, self.parser)

    @cached_property
    def list_imports(self) -> ListImports:
        """Imports that go on while their users look. Close it at the end."""
        return ListImports(self.stores.redis, self.feed_lists, self.quotas, self.changed, self.clock)

    @cached_property
    def user_export(self) -> UserExport:
        """The export of a user's data."""
        return user_export(self.stores)

    @cached_property
    def images(self) -> Images:
        """The pictures of posts."""
        return Images(self.stores.redis, self.plain)

    @cached_property
    def answers(self) -> Answers:
        """Answers on users' sites."""
        return Answers(self.stores.redis, self.plain)

    @cached_property
    def devices(self) -> Devices:
        """The devices that are notified of new posts."""
        return Devices(self.stores.redis)

    # --- posts from and for others

    @cached_property
    def output_contents(self) -> OutputContents:
        """The items of output feeds."""
        most, finding = partial(self.quotas.most, "output_items"), self._post_search(visits=False)
        reading, base_url = self.reading, self.settings.base_url
        return output_contents(self.stores, most, finding, reading.fill, base_url, reading.own_view)

    @cached_property
    def topics(self) -> Topics | None:
        """The topics of our hub; None if the server has no public URL."""
        return hub_topics(self.settings, self.stores, self.output_contents, self.reading.fill)

    @cached_property
    def topics_changed(self) -> Callable[[str, float], Awaitable[object]]:
        """Called with a user whose topics may have changed, and the time."""
        return _ignored if self.topics is None else noting_topics(self.stores)

    @cached_property
    def sources(self) -> Sources:
        """The sources that post into channels by Micropub."""
        return sources(self.stores)

    @cached_property
    def media(self) -> Media:
        """The files of posts from sources."""
        return Media(self.stores.redis)

    @cached_property
    def posting(self) -> Posting:
        """The service that accepts posts from sources."""
        stores, erase = self.stores, store_of_posts(self.stores).delete
        parts = (stores.redis, stores.feeds, stores.items, ingest(stores), self.parser, self.media, erase)
        return Posting(*parts, clock=self.clock, require_room=stores.room.require)

    @cached_property
    def mentions(self) -> MentionReceiver:
        """The receiver of webmentions."""
        return mention_receiver(self.stores, self.settings.public_url)

    @cached_property
    def subscription_store(self) -> SubscriptionStore:
        """The subscriptions at other servers' hubs."""
        return SubscriptionStore(self.stores.redis)

    @cached_property
    def callbacks(self) -> Callbacks:
        """The requests that hubs of other servers send."""
        stores = self.stores
        return Callbacks(stores.redis, stores.feeds, stores.schedule, self.subscription_store, clock=self.clock)

    @cached_property
    def posts(self) -> Posts:
        """The posts of all feeds, for programs."""
        return Posts(self.stores.feeds, self.stores.items, self.stores.events)

    @cached_property
    def service_tokens(self) -> ServiceTokens:
        """The tokens of those programs."""
        return ServiceTokens(self.stores.redis)

    # --- administration

    @cached_property
    def retry_letters(self) -> Callable[[Sequence[DeadLetter]], Awaitable[list[str]]]:
        """Puts dead letters back, and returns failures as text."""
        return letter_retry(self.stores)

    def backend(self) -> Status:
        """The state of backend.json."""
        return self.config.status

    def changed(self) -> None:
        """Note that declarations of backend.json changed, which is then written back soon."""
        self.config.touched()

    @cached_property
    def health(self) -> Health:
        """The health of the server."""
        push = None if callback_base(self.settings) is None else partial(push_state, self.stores.redis)
        return Health(self.stores.presence, self.backend, push)

    @cached_property
    def figures(self) -> Figures:
        """Metrics."""
        return figures(self.stores, self.index)

    @cached_property
    def survey(self) -> Survey:
        """The condition of all feeds."""
        return survey(self.stores)

    @cached_property
    def overview(self) -> Callable[[float], Awaitable[ServerState]]:
        """The figures on the first page for admins."""
        stores, hours = self.stores, Hours(self.stores.redis)
        parts = (stores.redis, self.health, stores.accounts, stores.presence, self.survey, hours, STAGES)
        return partial(server_state, *parts)

    @cached_property
    def polls(self) -> PollOnRequest:
        """Polls that users and admins ask for."""
        return PollOnRequest(self.stores.feeds, self.stores.schedule)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """Messages that could not be handled."""
        return DeadLetters(self.stores.redis)

    @cached_property
    def activity(self) -> Activity:
        """The times of the last activity of users."""
        return Activity(self.stores.redis)


def noting_topics(stores: Stores) -> Callable[[str, float], Awaitable[object]]:
    """The function that records that a user's topics may have changed."""
    changes = TopicChanges(stores.redis)
    return lambda user, now: changes.note([user], (), now)


def mention_receiver(stores: Stores, base: str, steady: Callable[[], float] = time.monotonic) -> MentionReceiver:
    """The receiver of webmentions, for a server at `base`."""
    store, hosted_profile = MentionStore(stores.redis), partial(profile_page, base)
    parts = (store, stores.accounts, stores.rules, stores.effective)
    return MentionReceiver(*parts, hosted_profile=hosted_profile, own=base, clock=stores.clock, steady=steady)
