"""Every Redis key of the product, named once by its form; nothing else builds a key string.

`<…>` in a form stands for a value. The text below each form gives: type, member or field, score or value; lifetime;
the modules that write and read it. `microsub check` takes from these words the type, and whether a key may be
permanent (`check.keynames`). Braces are Redis Cluster hash tags: the keys of one user, of one feed and of one host each
share a slot. No script touches two slots.

`Permanent` keys are deleted with their owner. Every other key has a time to live; a test fails on any key without
one. Secrets for signing in are stored as hashes only: random ones as SHA-256, passwords as argon2.

Lua never joins key strings. A script that walks all channels of a user gets patterns made by `pattern`, in which `*`
stands for the channel uid.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_VALUE = re.compile(r"<\w+>")
_ONE: dict[str, Callable[[str], str]] = {}
_TWO: dict[str, Callable[[str, str], str]] = {}


def key(form: str) -> Callable[[], str]:
    """A function that returns the key of that form."""
    return lambda: form


def key_of(form: str) -> Callable[[str], str]:
    """A function from the value in that form to the key."""
    before, behind = _VALUE.split(form)
    _ONE[form] = lambda value: f"{before}{value}{behind}"
    return _ONE[form]


def key_of_two(form: str) -> Callable[[str, str], str]:
    """A function from the two values in that form to the key."""
    before, between, behind = _VALUE.split(form)
    _TWO[form] = lambda one, two: f"{before}{one}{between}{two}{behind}"
    return _TWO[form]


def pattern(named: Callable[[str, str], str], name: str) -> str:
    """The key of a channel or output feed with `*` as its name, for scripts that walk all of a user."""
    return named(name, "*")


# --- the instance ------------------------------------------------------------------------------------------------

schema = key("meta:schema")
"""String: the version of this layout. Permanent. `redis.migrations`."""

instance = key("meta:instance")
"""String: a random name of this data; another name shows that the data was lost or replaced. Permanent.
`backend_file.store`.
"""

address = key("meta:address")
"""String: the public URL of the web process that started last, for commands that print addresses. Permanent.
`backend_file.store`.
"""

image_secret = key("meta:images")
"""String: a random secret that signs the addresses of pictures. Permanent. `reader.reading.images`."""

articles = key("meta:articles")
"""String: Unix time since which full texts are automatic for newly followed feeds. Permanent.
`timelines.channels.follows`.
"""

packing = key("meta:packing")
"""String: the next item id to be packed. Permanent while there are posts of layout 8.
`posts.repacking`.
"""

packing_timelines = key("meta:packing:timelines")
"""String: 1. Permanent while there may be timelines of layout 8. `timelines.repacking`."""

push_key = key("meta:webpush")
"""String: the private key that identifies this server to push services (RFC 8292). Permanent. `webpush.devices`."""

lease = key_of("lease:<what>")
"""String: token of the process that holds the lease on `migration`, `config` (applying backend.json), `saving:<feed>`,
`copy:<SHA-256 of a URL>` (fetching that URL) or `foreign:<user>:<digest>` (asking the provider about that token),
`packing` or `packing timelines` (of layout 8), or of the process that did `upkeep:<part>` last.
Lifetime: the lease. `redis.lease`.
"""

due = key_of_two("due:<what>:<shard>")
"""Sorted set: due work of upkeep by Unix time: `<user> <channel uid>` (`retention`), user (`follows`),
`<user> <webmention>` (`mentions`), `<user> <device>` (`devices`), each in shards by user name; feed id (`websub`); and
daily jobs (`daily`). Permanent, derived. `work.calendar`.
"""

due_claims = key_of_two("{due:<what>:<shard>}:claims")
"""Hash: claimed member of `due:<what>:<shard>` → the claim's token; `again <member>` → Unix time for which it was
planned meanwhile; `*` → the last token assigned; `* at` → the latest time of a claim. Permanent, entries are deleted
with the claim. `work.calendar`.
"""

item_ids = key("ids:item")
"""String: counter of item ids. Permanent. `posts.items`."""

item_days = key("ids:item:days")
"""Hash: day (Unix time divided by 86,400) → the item id that was the last one then. Permanent, of the last 31 days.
`timelines.retention`: which ids are old enough to be forgotten.
"""

feed_ids = key("ids:feed")
"""String: counter of feed ids. Permanent. `feeds.record`."""

users = key("users")
"""Set of user names, disabled ones included. Permanent. `accounts.store`."""

seen = key("users:seen")
"""Sorted set: user by Unix time of their last request, to within minutes. Permanent, members are deleted with their
users. `accounts.records`; read by delivery.
"""

applied_config = key("config:applied")
"""Hash: the last applied version of backend.json (`document`, `hash`, `mtime`, `at`, `place`), the edit that is being
applied (`begun`), and the `x-version` of the file that is being written (`writing`). Permanent. `backend_file.store`.
"""

config_changes = key("config:changes")
"""List: JSON of Unix time and text of each recently applied change of backend.json, latest edit first; 100 at most.
Permanent. `backend_file.store`.
"""

service_tokens = key("services")
"""Hash: name of a program that reads the post store → JSON: `digest` (SHA-256 of its token), `created`, `expires`.
Permanent. `accounts.store`.
"""

settings = key("config:settings")
"""Hash: the declared settings as JSON: `instance`, and `user:<name>` for one user; `looks` (name and colour) and
`quotas:<user>`, which an admin chose on pages. Permanent. `configuration.effective`; read by all services.
"""

probe = key_of("probe:<number>")
"""String: empty; writing it shows whether a Redis accepts writes, on each master by another number. Lifetime: a minute.
`redis.presence`, for /health.
"""

workers = key("workers")
"""Sorted set: worker name by the time of its last heartbeat. Permanent, trimmed. `redis.presence`; read by /health."""

process_counts = key("metrics")
"""Hash: sample of a metric (JSON: name, labels) → the sum of all workers' counts. Lifetime: a day after the last count.
`redis.presence`; read by /metrics.
"""

hour = key_of("hour:<number>")
"""Hash: `polls`, `failed`, `posts`, `planned`, `in_time`, `late_seconds` → the workers' counts in that hour (Unix time
divided by 3,600). Lifetime: a week after its end. `admin.hours`; read by the admin's pages.
"""

survey = key("survey")
"""String: JSON of sums over all followed feeds. Lifetime: a day after the last survey. `admin.survey`."""

surveyed_feeds = key("survey:feeds")
"""Sorted set: feed id by state and Unix time of its last reply, as of the last survey. Lifetime: a day after it.
`admin.survey`.
"""

surveyed_failing = key("survey:failing")
"""Sorted set: `<user>/<channel uid>/<feed id>` of each follow of a feed that can't be read, all with the score 0, as
of the last survey and polls since. Lifetime: a day after it. `admin.survey`; read by the reader's list of channels.
"""

surveyed_holds = key("survey:holds")
"""Sorted set: paused host by the Unix time of its next request, as of the last survey. Lifetime: a day after it.
`admin.survey`.
"""

# --- items -------------------------------------------------------------------------------------------------------

ITEM_PREFIX = "item:"

item = key_of("item:<item_id>")
"""Hash: `ID`, `Published`, `Data` (wire JSON, packed unless it is short; `microsub post ID` prints it), `Full` (JSON of
its full text, packed likewise), `full_of` (the link whose page was read for it), `full_auto` (its feed cuts its posts),
`feed`, `guid`, `written_guid` (if it differs), `former_guid` (the guid before it, if the publisher changed it), `hash`,
`version`, `confirmed`, `untold` (version of an edit that isn't announced yet), `score`, `updated`, `discovered`,
`author`, `link`, `twin` (the identity it shares with duplicates), `twin_at` (Unix time of its last registration),
`incomplete`, `asked`, `own` (digest of what the post itself says), `condemned`, `was` (duplicates in feeds that have
become this one, and from imports), `became` (the id of the item that names this one in `was`), `by_user` (its user
wrote it with an app), and the fields that a program saved. `link`, `updated` and `twin_at` aren't stored if they are
the same as the guid and `discovered` (`posts.thin`). Permanent, deleted when no timeline or output feed refers to it
any more.
`posts.items`.
"""

duplicates = key_of("twins:{<link_host>}")
"""Sorted set, of the host of posts' links: `<item id> <feed id> <host>` (without the feed's host if it is this one) by
44 bits of the digest of normalised guid and link, times 256, plus the number of the month (30 days, modulo 256) in
which the post was last registered. Lifetime: 400 days after the last write; members of that age are deleted by and by.
`posts.duplicates`.
"""

former_duplicates = key_of("twins:<identity>")
"""Set, of layout 8: `<item id> <feed id> <host> <link host>` of items with the same normalised guid and link, whose
digest names it. Lifetime: 400 days; upkeep moves the members. `posts.duplicates`.
"""

# --- feeds -------------------------------------------------------------------------------------------------------

feeds_by_url = key("feeds:by-url")
"""Hash: canonical URL → feed id, followed by a Unix time if a sweep found the feed gone. Permanent; a later sweep
deletes the entry if the feed is still gone. `feeds.url_index`.
"""

feed = key_of("feed:{<feed_id>}")
"""Hash: url, title, photo, validators, schedule, health, WebSub. Permanent, or until 30 days after the last
follower left. `feeds.record`; read by following and the pipeline.
"""

feed_items = key_of("feed:{<feed_id>}:items")
"""Sorted set: item id by time of the last update, the order of the feed's posts. Lifetime: as `feed`. `posts.items`."""

feed_guids = key_of("feed:{<feed_id>}:guids")
"""Hash: guid → item id; stays after the item is deleted (tombstone). Lifetime: as `feed`. `posts.items`."""

feed_outbox = key_of("feed:{<feed_id>}:pending")
"""Set: the outbox, ids of stored posts that haven't been passed to delivery, so a crash between the two steps loses
none. Lifetime: as `feed`. `posts.items`.
"""

feed_tombstones = key_of("feed:{<feed_id>}:tombstones")
"""Sorted set: guid of a deleted post by the Unix time at which the feed last listed it. Lifetime: as `feed`, trimmed.
`posts.garbage`.
"""

feed_departed = key_of("feed:{<feed_id>}:departed")
"""Hash: guid of a post that isn't stored here, but had left timelines of the server from which an import came → its id
in `gone` of these timelines. Lifetime: 400 days after the last such import. `posts.imported`; read when the feed lists
the post.
"""

feed_imported = key_of("feed:{<feed_id>}:imported")
"""Hash: guid of a post that isn't stored here, but that imports have given to single users → the ids of their own
copies. Lifetime: 400 days after the last such import. `posts.imported`; read when the feed lists the post.
"""

feed_subscribers = key_of("feed:{<feed_id>}:subscribers")
"""Set: `<user>/<channel uid>` of each follower, derived from the channels' own lists. Lifetime: as `feed`.
`feeds.record`.
"""

feed_edition = key_of("feed:{<feed_id>}:edition")
"""String: random, replaced with every change of the feed's `subscribers`, so a cached list is recognised as outdated.
Lifetime: as `feed`. `feeds.record`.
"""

feed_fingerprints = key_of("feed:{<feed_id>}:marks")
"""String: hash of the last stored document and a fingerprint of each of its entries, so that they aren't processed
again (`formats.parse`). Lifetime: a day; then every entry is processed again. `feeds.record`.
"""

feed_websub = key_of("feed:{<feed_id>}:websub")
"""Hash: subscriptions at the feed's hub: `callback <token>` → JSON with the lease and the secret that signs deliveries;
`to` (hub and topic), `tries`, `next`; `seen` (digests of deliveries), `spent` (Unix time until which the feed's share
of processor time is used up). Lifetime: as `feed`. `websub.store`.
"""

hub_counts = key_of("hub:<hub_host>")
"""Hash: event of a hub (asked, verified, ended, denied, refused, delivered, forged, posts, missed) → its count.
Lifetime: 90 days after the last event. `websub.store`.
"""

hub_contact = key("hubs:contact")
"""Hash: `asked` and `heard`, Unix times of the last request to a hub for a subscription and of the last request of a
hub to a callback. Permanent. `websub.store`.
"""

hub_of_feed = key_of("feed:{<feed_id>}:hub")
"""Hash: subscriptions at our own hub to the stored posts of a feed, in the form of `user:{<name>}:hub`. Lifetime: 15
days after the last request or verification, longer than any lease. `hub.store`.
"""

hub_owners = key("hub:owners")
"""Set: owners of topics with subscriptions at our own hub: `user <name>`, `feed <feed id>`. Permanent, derived.
`hub.store`.
"""

hub_due = key("{hub}:due")
"""Sorted set: due work of our own hub by Unix time: an owner as in `hub:owners`, whose topics may have changed, or
`<owner> <subscription>`. Work that a worker has claimed is due at the end of the claim. Permanent, derived.
`hub.store`.
"""

hub_claims = key("{hub}:claims")
"""Hash: claimed member of `{hub}:due` → the claim's token, in the form of `{due:<what>:<shard>}:claims`. Permanent,
entries are deleted with the claim. `hub.store`.
"""

hub_callbacks = key_of("callbacks:<callback_host>")
"""Sorted set: subscriptions at our own hub whose callback is on that host, in the form of `{hub}:due`, by the end of
their lease. Lifetime: 15 days after the last change, trimmed. `hub.store`.
"""

hub_tallies = key_of("callbacks:<callback_host>:tallies")
"""Hash: event of our own hub with callbacks on that host (verified, unverified, ended, denied, delivered, failed,
given_up, gone) → its count. Lifetime: 90 days after the last event; an hour for hosts that never verified a
subscription. `hub.store`.
"""

feed_copy = key_of("copy:<digest>")
"""String: the feed cache's copy of a document (`cache.copy`), by the SHA-256 of its URL. Lifetime: as long as the cache
can use it, in the server at least an hour. `cache.redis_storage`.
"""

feed_copies = key("copies")
"""Sorted set: URL of each copy by the Unix time at which the copy expires. Permanent, trimmed. `cache.redis_storage`.
"""

# --- the pipeline ------------------------------------------------------------------------------------------------

STREAM_PREFIX = "stream:{"

stream = key_of("stream:{<stage>}")
"""Stream: messages from one stage to the next (`posts.messages`). Permanent; a message is deleted when it is done.
`work.stream`.
"""

stream_bytes = key_of("stream:{<stage>}:bytes")
"""String: total bytes of the stream's waiting messages. Permanent, absent while the stream is empty. `work.stream`.
"""

stream_left_out = key_of("stream:{<stage>}:left-out")
"""String: random; present if messages were left out because the stream was full. Permanent, deleted when all of them
have been added later. `work.stream`; written by `posts.ingest`, read by `delivery.look_ups`.
"""

events_stream = key("stream:{events}")
"""Stream: events of feeds and posts, for other programs. Permanent, capped. `feeds.events`."""

# --- the schedule ------------------------------------------------------------------------------------------------

mute_ends = key("{mutes}:ends")
"""Sorted set: `<user> <channel uid or global> <URL in its comparison form>` of a mute by the Unix time of its end.
Permanent, entries are deleted with the mute. `timelines.rules`.
"""

hosts_due = key("{hosts}:due")
"""Sorted set: host by Unix time of its next allowed request; for a leased host, the end of its lease. Permanent.
`feeds.hosts`.
"""

hosts_leases = key("{hosts}:leases")
"""Hash: leased host → the lease's token, in the form of `{due:<what>:<shard>}:claims`. Permanent, entries are deleted
with the lease. `feeds.hosts`.
"""

host_due = key_of("host:{<host_name>}:due")
"""Sorted set: feed id by Unix time of its next poll. Permanent, absent if empty. `feeds.hosts`."""

host = key_of("host:{<host_name>}")
"""Hash: `hold` (Unix time until which no request is sent), `held:<feed>` (end of the pause that a feed's publisher
requested), `free` (Unix time at which its spacing ends), `token` (the newest lease that was used). Lifetime: 48 hours.
`feeds.hosts`.
"""

# --- users -------------------------------------------------------------------------------------------------------

user = key_of("user:{<name>}")
"""Hash: `me`, `token_endpoint`, settings, `created` and `disabled` (Unix time), `registered` (1: by signing in),
`admin` (1), `shape` (grows when a channel's name or settings change), `names` (grows when the user's own names for
feeds, or settings for them, change; 0: there never was one), `apart` (1: a feed was hidden in *All*), `rule_count`
(number of mutes and blocks, once counted), `post_bytes` (the user's share of the bytes of posts, corrected by upkeep
daily), `display` (how all pages look: the choices joined by points), `searches` (those in the list of channels: JSON of
name, words, channel uid, and whether the best come first), `playing` (episodes, the current one first: JSON of post,
file, title, second; 20 and 8,000 bytes at most), `shortcuts` (own keys: JSON of action → keys), `services` (JSON of
name and address; 10 at most), `filters` (for all channels: JSON; read whenever items are added), `move <feed id> <uid>`
(target and begin of a move of the feed's items from that channel; to the channel itself: of an unfollow). Permanent, or
until 30 days after the user was disabled. `accounts.store`, `timelines.channels.store`, `timelines.channels.follows`,
`timelines.feed_names`.
"""

former_feeds = key_of("user:{<name>}:former-feeds")
"""Hash: id of a feed that the user followed → the feed that replaced it. Lifetime: 400 days after the last one; 1,000
at most. `timelines.channels.follows`.
"""

token = key_of_two("user:{<name>}:token:<digest>")
"""Hash: `scope`, `client`, `created`, `expires`, `used` (Unix time of the last use, to within minutes; for an app's
token it is stored at the grant), `grant` (its id, if an app was granted the token), `mark` (if there may be only one
token of its kind). A token of the user's own provider also has `foreign`, `checked` (Unix time of the provider's last
reply) and `ends` (the token's own expiry); its `expires` is the time of the next check. Permanent, or until it expires.
`accounts.store`, `accounts.foreign`; read by every request.
"""

tokens = key_of("user:{<name>}:tokens")
"""Set: digests of the user's tokens. Permanent. `accounts.store`."""

channels = key_of("user:{<name>}:channels")
"""Sorted set: channel uid by position. Permanent. `timelines.channels.store`."""

removed_channels = key_of("user:{<name>}:channels:removed")
"""Sorted set: uid of a removed channel by the time of its removal; restorable for 30 days. Permanent, trimmed.
`timelines.channels.store`.
"""

channel = key_of_two("user:{<name>}:channel:<uid>")
"""Hash: `name`, a field for each of its own settings (`max_items`, …; `filters` as JSON), `changed` (Unix time of the
last change by API), `topic` (the secret in the address of its topic), and `unread_from <feed id>` (the score below
which items of that feed arrive as read, set by its first items). Permanent. `timelines.channels.store`, `hub.topics`.
"""

channel_feeds = key_of_two("user:{<name>}:channel:<uid>:feeds")
"""Hash: feed id → JSON of the follow (`url`, `name`, `followed_at`, `settings` with the filter as text, and
`first_feed`, the id that apps know, if another feed has replaced that one). The source of truth for follows. Permanent.
`timelines.channels.follows`.
"""

posts = key_of_two("user:{<name>}:zchannel:<uid>:posts")
"""Sorted set, the timeline: item id by published time. Permanent, limited by retention. `timelines.add`."""

unread = key_of_two("user:{<name>}:zchannel:<uid>:unread")
"""Set: ids of the unread items of `posts`: whole numbers, which the engine keeps in four bytes each, as in `gone`. In
data of layout 8 a sorted set, until upkeep has visited the channel. Permanent, as `posts`. `timelines.read_state`.
"""

read = key_of_two("user:{<name>}:channel:<uid>:read")
"""Hash: 0 to 15 → when the read items of `posts` whose ids have that rest modulo 16 were read: for each, the id in five
bytes and the Unix time in four, little-endian. Of more than 500 items it is empty, and they are in `<name>.0` to
`<name>.3` by the next two bits of their ids, and so on. In data of layout 8 a sorted set, until upkeep has visited the
channel. Permanent, as `posts`. `redis.readings`, `timelines.read_state`, `timelines.retention`.
"""

unread_newest = key_of_two("user:{<name>}:zchannel:<uid>:unread:newest")
"""Sorted set: the newest of `unread`, by published time: all that aren't older than its oldest, at most 128. Written
after a page of unread items was read, and kept up to date by every change. Lifetime: thirty days after one of them was
read or removed. `timelines.pages`.
"""

unread_packing = key_of_two("user:{<name>}:zchannel:<uid>:unread:packing")
"""Set: the part of `unread` of layout 8 that upkeep has copied so far; a change of `unread` deletes it. Lifetime: an
hour after the last step. `timelines.repacking`.
"""

read_packing = key_of_two("user:{<name>}:channel:<uid>:read:packing")
"""Hash: the same for `read` of layout 8; `count` is the number of items. Lifetime: an hour after the last step.
`timelines.repacking`.
"""

hidden_read_packing = key_of_two("user:{<name>}:zchannel:<uid>:hidden-read:packing")
"""Hash: the same for `hidden_read` of layout 8. Lifetime: an hour after the last step. `timelines.repacking`."""

hidden = key_of_two("user:{<name>}:zchannel:<uid>:hidden")
"""Sorted set: muted item id by published time. Permanent, as `posts`. `timelines.rules`."""

apart = key_of_two("user:{<name>}:channel:<uid>:apart")
"""Set: ids of items of feeds that the user hides in *All*; retention removes those that the channel doesn't have (any
more). Permanent, absent if empty. `timelines.add`, `timelines.rules`.
"""

hidden_read = key_of_two("user:{<name>}:zchannel:<uid>:hidden-read")
"""Hash: when the read items of `hidden` were read, as in `read`. Permanent, as `posts`. `timelines.rules`."""

gone = key_of_two("user:{<name>}:channel:<uid>:gone")
"""Set: 16 times the id of an item that left, plus the reason (`model.reader.Reason`): whole numbers, which the engine
keeps in four bytes each if its `set-max-intset-entries` allows that. Permanent, a number is deleted when its item can't
return. Read whenever items are added. `timelines.gone`, `timelines.remove`.
"""

gone_before = key_of_two("user:{<name>}:channel:<uid>:gone:before")
"""Sorted set: the rest of `gone` of layout 8, id by time of leaving in whole seconds plus reason/16. Permanent until
all of it is in `gone`. `timelines.repacking`.
"""

arrivals = key_of("user:{<name>}:arrivals")
"""Sorted set: id of each item that a channel shows, removed channels included, by its position in the user's order of
arrival: Unix time in microseconds, always growing. Only of users whose native apps sync, whose devices are notified, or
who have output feeds. Permanent, an id is deleted when no channel shows the item.
`timelines.sync.arrivals`.
"""

arrivals_again = key_of("user:{<name>}:arrivals:again")
"""Sorted set: id of each item that a further channel began to show when the item already had its position in `arrivals`
(it was moved, saved, or listed by a second feed), by the position of the last such event. Permanent, as `arrivals`.
`timelines.sync.arrivals`.
"""

arrivals_more = key_of("user:{<name>}:arrivals:more")
"""Hash: `last` → the last position assigned in `arrivals`, present if the order is kept; `building` → the position
before which the items belong that were there when it began, until all of them have theirs; for each item that several
channels show, item id → the number of channels after the first. Permanent, as `arrivals`. `timelines.sync.arrivals`.
"""

muted = key_of_two("user:{<name>}:muted:<uid>")
"""Hash: URL in its comparison form → the URL as it was given; `uid` may be `global`. Permanent. `timelines.rules`."""

blocked = key_of_two("user:{<name>}:blocked:<uid>")
"""Hash: URL in its comparison form → the URL as it was given; `uid` may be `global`. Permanent. `timelines.rules`."""

behind = key_of("user:{<name>}:behind")
"""Hash: `<uid> <feed id>` → `<score> <count>`: that feed's posts from this score on still have to be added to that
timeline; the count grows with every postponed delivery. Permanent, emptied when the user reads. `timelines.add`.
"""

imported = key_of("user:{<name>}:imported")
"""Hash: id of a post in another server's data → item id here; `<uid> <id>` → 1 once that channel has it. Only for posts
without a feed, which have no guid here. Lifetime: 400 days after the last import. `posts.imported`.
"""

hub_of_user = key_of("user:{<name>}:hub")
"""Hash: subscriptions at our own hub to the user's topics: `sub <subscription>` → JSON with callback, topic, secret,
lease and the last delivered version; `ask <subscription>` → JSON of the request that awaits verification. Lifetime: 15
days after the last request or verification, longer than any lease. `hub.store`.
"""

LIVE_EVENTS_PREFIX = "events:"
"""Different from the user's other keys, so that Redis can report additions to these streams and nothing else."""

live_events = key_of("events:{<name>}")
"""Stream: changes in the channels of a user with a listening app: `event`, `channel`, `came` (item ids) or `order`.
Lifetime: six hours after the last app has listened, capped. `timelines.sync.live_events`; written by the scripts that
make the changes (redis/lua/parts/events.lua).
"""

posting = key_of("user:{<name>}:posting")
"""Hash: a browser (22 digits of the SHA-256 of its secret) → Unix time, space, and the user's Micropub endpoint and
token, encrypted with that secret. 10 browsers at most. Lifetime: 400 days after the last was added.
`reader.answering.answers`.
"""

answered = key_of_two("user:{<name>}:answered:<answer>")
"""String: the address of a published answer on the user's site, by the answer's digest; `-` while it is being
published. Lifetime: 10 minutes. `reader.answering.answers`.
"""

devices_told = key_of("user:{<name>}:devices-told")
"""Hash: session id of a device → JSON: its name, its address at a push service, encryption keys, channels, language,
`since`. Permanent, 10 at most. `webpush.devices`.
"""

device_states = key_of("user:{<name>}:devices-told:states")
"""Hash: member of `devices-told` → JSON: the position in `arrivals` up to which its user was notified, when, and
failures; `test <member>` → 1 if a test message is to be sent. Permanent, entries are deleted with the device.
`webpush.devices`.
"""

displays = key_of("user:{<name>}:displays")
"""Hash: channel uid → how its pages look: view, order and grouping, joined by points; the empty uid has the last
choice, for channels without one. Permanent. `timelines.displays`.
"""

undo = key_of_two("user:{<name>}:undo:<record>")
"""Hash, the undo record of a bulk change: its `id`, the `count` of posts, the `name` of the channel or feed that was
marked as read, `in <uid>` → ids of the posts that it marked, 8 bytes each, `was <feed> <uid>` → ids of the posts that
it moved out of several channels and when they were read, 12 bytes each, and `follow <uid>` → the follow that it ended,
as JSON. Of undone marks: the number of posts that are unread again, `undone`, and that name, `of`.
Lifetime: 10 minutes. `reader.reading.undo`.
"""

undo_records = key_of("user:{<name>}:undo-records")
"""Hash: record → the Unix time at which it was made and its bytes, of the undo records; a second after the one before
if the clock was put back. Lifetime: 10 minutes from the latest one. `reader.reading.undo`.
"""

entered = key_of("user:{<name>}:entered")
"""Hash: digest of an address without user name and password → the address as the user entered it, of the user's last
searches and previews, sealed if it has a password; 50 at most. Lifetime: an hour after the last one.
`discovery.entered`.
"""

list_import = key_of("user:{<name>}:list_import")
"""String, JSON: progress and report of the user's last import of a list of feeds on a page. Lifetime: an hour.
`transfer.list_imports`.
"""

mentions = key_of("user:{<name>}:mentions")
"""Hash: id of a webmention (a digest of source and target) → JSON: source, target, state, and the content of the
source. Permanent, 2,000 at most. `webmention.store`.
"""

mentions_waiting = key_of("user:{<name>}:mentions:waiting")
"""Sorted set: id of a webmention whose source is still to be fetched, by the Unix time of that. Permanent, 200 at most.
`webmention.store`.
"""

mentions_by_time = key_of("user:{<name>}:mentions:by-time")
"""Sorted set: id of each webmention by Unix time of its last change. Permanent, 2,000 at most. `webmention.store`."""

follows = key_of_two("user:{<name>}:follows:<day>")
"""String: the number of feeds that the user began to follow in apps on that day (Unix time divided by 86,400).
Lifetime: two days. `timelines.channels.store`.
"""

# --- output feeds ------------------------------------------------------------------------------------------------

outputs = key_of("user:{<name>}:outputs")
"""Set: names of the user's output feeds, also of those removed from backend.json. Permanent. `outputs.store`."""

output_addresses = key_of("user:{<name>}:output-addresses")
"""Hash: SHA-256 of the secret in the address of an output feed → the feed's name, or '' if the address was revoked.
Permanent, 1,000 at most. `outputs.store`.
"""

output = key_of_two("user:{<name>}:output:<feed>")
"""Hash, an output feed: `id` (UUID), `secret` (in its address), its settings (`title`, `description`, `image`,
`author`, `language`, `channel`, `search`, `filters` as JSON, `max_impressions`, `max_age`, `republish`, `public`), the
Unix times `created`, `changed` (its settings), `modified` (its content) and `removed` (from backend.json), `source`
(creation time of its channel), `editions` (counter of publications), `place` (position in the user's order of arrival
up to which it has added items), and `taken_from` (its `source` then). Permanent. `outputs.store`.
"""

output_published = key_of_two("user:{<name>}:output:<feed>:published")
"""Sorted set: item id by Unix time of publication. Permanent. `outputs.store`."""

output_imported = key_of_two("user:{<name>}:output:<feed>:imported")
"""Sorted set: id of an item that has had its maximum number of impressions, by the time of the last one. Permanent.
`outputs.store`.
"""

output_edited = key_of_two("user:{<name>}:output:<feed>:edited")
"""Sorted set: id of each item that was ever added, also of removed ones, by the time of its last publication or
removal. Permanent, trimmed. `outputs.store`.
"""

output_impressions = key_of_two("user:{<name>}:output:<feed>:impressions")
"""Hash: item id → number of impressions since its publication, and the times of the last hundred, also of removed items
until they are forgotten. Permanent. `outputs.store`.
"""

output_editions = key_of_two("user:{<name>}:output:<feed>:editions")
"""Hash: item id → number of its edition, the post's `hash` and `own` then (`-`: unknown), the Unix time of publication,
and `edited` or `again` if it was published before. Permanent. `outputs.store`.
"""

output_held = key_of_two("user:{<name>}:output:<feed>:held")
"""Hash: a reply in transit → Unix time at which its reservation ends, and `<item id>:<edition>` of its items. Lifetime:
ten minutes after the last reply began. `outputs.store`.
"""

output_offered = key_of_two("user:{<name>}:output:<feed>:offered")
"""Set: ids of items that the channel or search added; they make room for items added by hand. Permanent.
`outputs.store`.
"""

# --- sources and their posts -------------------------------------------------------------------------------------

sources = key_of("user:{<name>}:sources")
"""Hash: id of a source → JSON: `name`, `seed` (secret from which addresses of its posts are derived), `created`,
`changed` (Unix time), and `app` if it was granted to an app. Permanent. `micropub.sources`.
"""

posted_lately = key_of_two("user:{<name>}:posted:<digest>")
"""String: the token in a post's address, by the SHA-256 of its source and its content, which identifies a retry.
Lifetime: ten minutes. `micropub.posting`.
"""

deleted_post = key_of_two("user:{<name>}:deleted:<digest>")
"""String: JSON of a post that its source has deleted and can restore, or `restored <token>` once it is restored, by
SHA-256 of source and token; 200 of each user. Lifetime: 30 days. `micropub.posting`.
"""

deleted_posts = key_of("user:{<name>}:deleted")
"""Sorted set: digests in the keys of the user's deleted posts, by the Unix time of their last write. Lifetime: 30 days
after the last. `micropub.posting`.
"""

media = key_of("user:{<name>}:media")
"""Set: tokens in the addresses of the files that the user's sources have sent. Permanent. `micropub.media`."""

medium = key_of_two("user:{<name>}:medium:<token>")
"""Hash, a file that a source has sent: `data`, `size` (bytes that count towards the quota), `type`, `digest` (SHA-256),
`post <feed> <guid>` for each post that shows it, and `unused`, the Unix time since which no such post exists.
Permanent, until its user deletes it or it was unused for 31 days. `micropub.media`.
"""

sign_ins = key_of("user:{<name>}:sign-ins")
"""Hash: id of a sign-in, which the address of a followed feed names → Unix time, and the headers that it sends, sealed
with a key that isn't in Redis. Permanent, entries are deleted when no follow names them. `feeds.sign_ins`.
"""

# --- local sign-in -----------------------------------------------------------------------------------------------

credentials = key_of("user:{<name>}:credentials")
"""Hash: `password` (argon2id in PHC form), `changed` (Unix time), `handle` (the user's id in passkeys). Permanent,
until the user is disabled. `accounts.credentials`.
"""

passkeys = key_of("user:{<name>}:passkeys")
"""Hash: credential id in base64url → JSON: `name`, `key` (public), `count`, `created`, `used`, `transports`. Lifetime:
permanent, until the user is disabled. `accounts.credentials`.
"""

invitation = key_of("user:{<name>}:invitation")
"""String: SHA-256 of the one-time link by which the user chooses how to sign in. Lifetime: 24 hours, once.
`accounts.credentials`.
"""

devices = key_of("user:{<name>}:devices")
"""Sorted set: SHA-256 of a known browser's cookie by Unix time of the last sign-in there; attempts from known browsers
are counted separately. Lifetime: 400 days after the last one. `accounts.credentials`.
"""

confirmed = key_of_two("user:{<name>}:confirmed:<session>")
"""String: empty; present if the user has just confirmed their identity in the session of that id. Lifetime: 10 minutes.
`accounts.sessions`.
"""

handles = key("identity:handles")
"""Hash: handle in passkeys → user. Permanent, entries are deleted with their users. `accounts.credentials`."""

ceremony = key_of("identity:ceremony:<digest>")
"""String: JSON of a passkey's challenge and its user, by SHA-256 of the secret that the browser got with it; or the
user of the sign-in link that the server shows at its start. Lifetime: 5 minutes, once. `accounts.credentials`.
"""

attempts = key_of("identity:attempts:<digest>")
"""Hash: `count` of failed and unfinished attempts, `until` (Unix time of the next allowed one), by SHA-256 of the
counted network or browser. Lifetime: 24 hours after the last; for challenges of passkeys five minutes.
`redis.attempts`.
"""

in_minute = key_of_two("identity:minute:<digest>:<minute>")
"""String: the number of actions in that minute (Unix time divided by 60), by SHA-256 of the action and account.
Lifetime: two minutes. `redis.attempts`.
"""

# --- tokens of other providers -----------------------------------------------------------------------------------

foreign = key_of("user:{<name>}:foreign")
"""Sorted set: digest of each token that the user's own provider has confirmed, by the Unix time at which that record
ends. Lifetime: that of the last record. `accounts.foreign`.
"""

foreign_checks = key_of("user:{<name>}:foreign:checks")
"""Hash: `known`, `first`, `rest` → number of requests to the user's provider about unknown tokens in this minute, by
share; `known <digest>` … the same for one network, by its SHA-256. Lifetime: a minute. `accounts.foreign`.
"""

foreign_networks = key_of("user:{<name>}:foreign:networks")
"""Sorted set: SHA-256 of each network from which a valid token of the user's own provider came, by Unix time of the
last one. Lifetime: 30 days after that; 50 at most. `accounts.foreign`.
"""

foreign_refused = key_of_two("user:{<name>}:foreign:refused:<digest>")
"""String: why the user's provider refused that token or couldn't be asked, or that it was one of our own tokens, which
has ended. Lifetime: a minute, seconds, or a day. `accounts.foreign`, `accounts.store`.
"""

foreign_owner = key_of("foreign:<digest>")
"""String: the user whose provider confirmed that token, for requests to the address without a user's name. Lifetime: as
the token's record. `accounts.foreign`.
"""

# --- sessions of our own pages -----------------------------------------------------------------------------------

session = key_of_two("user:{<name>}:session:<digest>")
"""Hash: `id`, `me`, `how`, `device`, `created`, `seen`, `renewed` (Unix time), `salt`, `next` and `previous` (digests).
Lifetime: 30 days after the last visit; 24 hours after its secret was renewed. `accounts.sessions`.
"""

sessions = key_of("user:{<name>}:sessions")
"""Set: digests of the user's sessions. Lifetime: as the last session. `accounts.sessions`."""

sign_in = key_of("identity:sign-in:<digest>")
"""String: JSON of a sign-in in progress (user, provider, browser, page to open afterwards), by SHA-256 of its `state`.
Lifetime: 15 minutes, once. `accounts.sessions`.
"""

# --- our own IndieAuth server ------------------------------------------------------------------------------------

code = key_of_two("user:{<name>}:code:<digest>")
"""Hash, an authorization code of our own IndieAuth server: `client`, `title`, `redirect`, `scope`, `challenge`, `seed`,
`expires`, `used`, `use`, `grant`, `source` (id of the source with which the app will post). Lifetime: an hour.
`accounts.grants`.
"""

grant = key_of_two("user:{<name>}:grant:<grant_id>")
"""Hash, a grant of an app: `client`, `title`, `scope`, `created`, `renewed`, `expires`, `refresh` and `before` (SHA-256
of the refresh token and of the previous one), `seed`, `before_seed`, `tokens`, `source` (id of the source with which
the app posts, if any), `used` (Unix time of the last use of its tokens, to within minutes). Lifetime: a year after its
last renewal. `accounts.grants`.
"""

grants = key_of("user:{<name>}:grants")
"""Set: ids of the user's grants. Permanent. `accounts.grants`."""

# --- keys that are deleted together ------------------------------------------------------------------------------

USER_KEYS = tuple(named for form, named in _ONE.items() if "{<name>}" in form and ":channels" not in form)
"""All keys of a user except those of single channels, files, tokens and the like, for the user's deletion."""

CHANNEL_KEYS = tuple(named for form, named in _TWO.items() if "<uid>" in form)
"""All keys of one channel, for its deletion."""

OUTPUT_KEYS = tuple(named for form, named in _TWO.items() if "<feed>" in form)
"""All keys of one output feed, for its deletion, in the order in which scripts get them."""
