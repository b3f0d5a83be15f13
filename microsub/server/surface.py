"""The dependencies of the HTTP surfaces, as one value that the wiring builds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from microsub.accounts.activity import Activity
from microsub.accounts.quotas import UserQuotas
from microsub.accounts.sessions import Sessions
from microsub.accounts.store import Accounts, ServiceTokens
from microsub.admin.figures import Figures
from microsub.admin.health import Health
from microsub.admin.overview import ServerOverview
from microsub.admin.survey import Survey
from microsub.backend_file.store import Applied
from microsub.configuration.effective import Status
from microsub.discovery.entered import EnteredAddresses
from microsub.discovery.picked import PickedPosts
from microsub.discovery.search import Search
from microsub.feeds.record import Feeds
from microsub.hub.topics import Topics
from microsub.identity.clients import ConsentLimit
from microsub.identity.foreign_tokens import ForeignTokenCheck
from microsub.identity.local_sign_in import LocalSignIn
from microsub.identity.page_check import PageDoctor
from microsub.identity.profiles import Profiles
from microsub.identity.provider import IndieAuthProvider
from microsub.identity.sign_in import SignInClient
from microsub.micropub.media import Media
from microsub.micropub.posting import Posting
from microsub.micropub.sources import Sources
from microsub.model.reader import Credential
from microsub.model.settings import SettingsOf
from microsub.outputs import OutputContents, OutputFeeds
from microsub.polling.on_demand import PollOnRequest
from microsub.post_store.posts import Posts
from microsub.posts.items import Items
from microsub.redis.protocol import Redis
from microsub.search import PostSearch
from microsub.timelines.channels import Channels
from microsub.timelines.follow import Following
from microsub.timelines.rules import Rules
from microsub.timelines.sync.live_events import Listeners
from microsub.timelines.views import ReaderViews
from microsub.transfer import FeedLists, ListImports, UserExport
from microsub.webmention.receiver import MentionReceiver
from microsub.webpush.devices import Devices
from microsub.websub.callbacks import Callbacks
from microsub.websub.store import SubscriptionStore
from microsub.work import DeadLetter, DeadLetters

if TYPE_CHECKING:
    from microsub.reader.answering.answers import Answers  # whose pages get these services
    from microsub.reader.reading.images import Images


async def _ignored(_user: str, _now: float) -> None:
    """Do nothing: without a hub, there are no subscribers."""


@dataclass(frozen=True, slots=True)
class IdentityServices:
    """All use cases of identity of one process."""

    profiles: Profiles
    provider: IndieAuthProvider
    sessions: Sessions
    signing_in: SignInClient
    local: LocalSignIn
    quotas: UserQuotas
    consents: ConsentLimit
    verification: ForeignTokenCheck
    doctor: PageDoctor


@dataclass(frozen=True, slots=True)
class Services:
    """All use cases of one process, and the stores that actions use directly.

    `clock` returns Unix time in seconds; tests replace it. `post_search` is None if search is off. `changed` is called
    after a change of declarations of backend.json, which is then written back soon; it mustn't block. `name_instance`
    returns the name of this server's data, `backend` the state of backend.json. `retry_letters` puts dead letters
    back, and returns failures as text. `public_url` is the server's URL, if known; `topics` are those of the hub,
    None without that URL. `topics_changed` is called with a user whose topics may have changed, and the time.
    """

    accounts: Accounts
    reading: ReaderViews
    redis: Redis
    channels: Channels
    items: Items
    feeds: Feeds
    images: Images
    answers: Answers
    devices: Devices
    following: Following
    rules: Rules
    search: Search
    entered: EnteredAddresses
    picked: PickedPosts
    feed_lists: FeedLists
    list_imports: ListImports
    user_export: UserExport
    health: Health
    figures: Figures
    posts: Posts
    callbacks: Callbacks
    mentions: MentionReceiver
    service_tokens: ServiceTokens
    identity: IdentityServices
    overview: ServerOverview
    survey: Survey
    polls: PollOnRequest
    dead_letters: DeadLetters
    retry_letters: Callable[[Sequence[DeadLetter]], Awaitable[list[str]]]
    subscription_store: SubscriptionStore
    applied: Applied
    activity: Activity
    outputs: OutputFeeds
    output_contents: OutputContents
    listeners: Listeners
    sources: Sources
    posting: Posting
    media: Media
    settings_of: SettingsOf
    name_instance: Callable[[], Awaitable[str]]
    backend: Callable[[], Status] = Status
    public_url: str = ""
    clock: Callable[[], float] = time.time
    post_search: PostSearch | None = None
    changed: Callable[[], None] = lambda: None
    topics: Topics | None = None
    topics_changed: Callable[[str, float], Awaitable[object]] = _ignored
    token_used: Callable[[Credential, float], None] = lambda _credential, _now: None
