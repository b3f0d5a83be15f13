"""Every Redis key of the product, named once by its form; nothing else builds a key string.

`<…>` in a form stands for a value. The text behind says: type, member or field, score or value; lifetime; who writes;
who reads. Braces are Redis Cluster hash tags: one user's keys share a slot, one feed's keys share a slot, one host's
keys share a slot, and no script touches two of them.

`Lifetime: permanent` keys live until their owner is deleted. Every other key has a time to live; a test fails on any
key that has neither a time to live nor a line here. What people sign in by is stored as a hash only: SHA-256 of what
is random anyway, argon2 of what people think up.

Lua never joins key strings. Where a script walks all channels of a user it is given patterns made by `pattern`,
in which `*` stands for the channel uid.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_VALUE = re.compile(r"<\w+>")
_ONE: dict[str, Callable[[str], str]] = {}
_TWO: dict[str, Callable[[str, str], str]] = {}


def key(form: str) -> Callable[[], str]:
    """The one key of that form."""
    return lambda: form


def key_of(form: str) -> Callable[[str], str]:
    """The keys of that form by the value in it."""
    before, behind = _VALUE.split(form)
    _ONE[form] = lambda value: f"{before}{value}{behind}"
    return _ONE[form]


def key_of_two(form: str) -> Callable[[str, str], str]:
    """The keys of that form by the two values in it."""
    before, between, behind = _VALUE.split(form)
    _TWO[form] = lambda one, two: f"{before}{one}{between}{two}{behind}"
    return _TWO[form]


def pattern(named: Callable[[str, str], str], name: str) -> str:
    """The key of a channel or output feed with `*` as its name, for scripts that walk all of a user."""
    return named(name, "*")


# --- the instance ------------------------------------------------------------------------------------------------

schema = key("meta:schema")
"""String: version of this layout. Lifetime: permanent. Written and read by `migrations`."""

instance = key("meta:instance")
"""String: a random name of this data, by which processes see that it was lost. Permanent. `configuration.store`."""

image_secret = key("meta:images")
"""String: a random secret that signs the addresses of pictures. Permanent. `reader.reading.images`."""

push_key = key("meta:webpush")
"""String: the private key by which push services know this server (RFC 8292). Permanent. `webpush.devices`."""

lease = key_of("lease:<what>")
"""String: token of the process that does it just now: `migration`, `config` (applying backend.json), `<what>:<shard>`
(what is due there, see `due`), `saving:<feed>`, `copy:<SHA-256 of a URL>` (asking that publisher),
`foreign:<user>:<digest>` (asking about that token), or whose turn it was last: `upkeep:<part>`. Lifetime: the lease.
`redis.lease`.
"""

due = key_of_two("due:<what>:<shard>")
"""Sorted set: what upkeep has to look at, by Unix time: `<user> <channel uid>` (`retention`), user (`follows`,
`mentions`), `<user> <device>` (`devices`), in shards by user name, feed id (`websub`), and a daily job (`daily`).
Lifetime: permanent, derived. `redis.due`.
"""

item_ids = key("ids:item")
"""String: counter of item ids. Lifetime: permanent. `posts.items`."""

feed_ids = key("ids:feed")
"""String: counter of feed ids. Lifetime: permanent. `feeds.record`."""

users = key("users")
"""Set of user names, disabled ones included. Lifetime: permanent. `identity.store.accounts`."""

seen = key("users:seen")
"""Sorted set: user by Unix time of their last request, to within minutes. Lifetime: permanent, members go with their
users. `identity.store.accounts`; read by delivery.
"""

applied_config = key("config:applied")
"""Hash: what was last applied from backend.json (`document`, `hash`, `mtime`, `at`, `place`), and the edit that is
being applied (`begun`). Permanent. `configuration.store`.
"""

config_changes = key("config:changes")
"""List: JSON of Unix time and text of each change of backend.json that was applied lately, the last edit first; 100 at
most. Permanent. `configuration.store`.
"""

service_tokens = key("services")
"""Hash: name of a program that reads the post store → JSON: `digest` (SHA-256 of its token), `created`, `expires`.
Permanent. `identity.store.accounts`.
"""

settings = key("config:settings")
"""Hash: settings in force as JSON: `instance`, and `user:<name>` for what holds for a user. Permanent.
`configuration.store`; read by services.
"""

probe = key("meta:probe")
"""String: empty; shows whether Redis takes writes. Lifetime: a minute. Written by `redis.presence` for /health,"""

workers = key("workers")
"""Sorted set: worker name by last sign of life. Lifetime: permanent, trimmed. `redis.presence`; read by /health."""

process_counts = key("metrics")
"""Hash: sample of a metric (JSON: name, labels) → what all workers have counted. Lifetime: a day after the last count.
`redis.presence`; read by /metrics.
"""

hour = key_of("hour:<number>")
"""Hash: `polls`, `failed`, `posts`, `planned`, `in_time`, `late_seconds` → what workers have counted in that hour (Unix
time divided by 3,600). Lifetime: a week after its end. `upkeep.hours`; read by the admin's pages.
"""

survey = key("survey")
"""String: JSON of sums over all followed feeds (`upkeep.survey`). Lifetime: a day after the last look."""

surveyed_feeds = key("survey:feeds")
"""Sorted set: feed id by state and Unix time of its last answer, as the last look at all feeds found them. Lifetime: a
day after it. `upkeep.survey`.
"""

surveyed_attention = key("survey:attention")
"""Hash: user → JSON: channel uid → how many of its feeds need attention, as the last look found them; a channel where
none does is left out. Lifetime: a day after it. `upkeep.survey`; read by the reader's list of channels.
"""

surveyed_holds = key("survey:holds")
"""Sorted set: host by Unix time until which nothing is requested from it, as the last look found them. Lifetime: a day
after it. `upkeep.survey`.
"""

# --- items -------------------------------------------------------------------------------------------------------

ITEM_PREFIX = "item:"

item = key_of("item:<item_id>")
"""Hash: `ID`, `Published`, `Data` (wire JSON), `feed`, `guid`, `written_guid` (where that is another), `hash`,
`version`, `confirmed`, `untold` (version of an edit not announced yet), `score`, `updated`, `discovered`, `author`,
`link`, `twin` (common identity with duplicates), `twin_at` (Unix time when it was last registered), `incomplete`,
`asked`, `condemned`, `was` (duplicates in feeds that have become this one) and whatever a post was saved with.
Lifetime: as long as a timeline refers to it. `posts.items`.
"""

duplicates = key_of("twins:<identity>")
"""Set: `<item id> <feed id> <host> <link host>` of items with the same normalised guid and link. Lifetime: 400 days
after the last write, prolonged while a feed lists the post. `posts.duplicates`.
"""

# --- feeds -------------------------------------------------------------------------------------------------------

feeds_by_url = key("feeds:by-url")
"""Hash: canonical URL → feed id, and a Unix time behind it where the feed was found gone. Lifetime: permanent; the
sweep takes those whose feed stays gone. `feeds.url_index`.
"""

feed = key_of("feed:{<feed_id>}")
"""Hash: url, title, photo, validators, schedule, health, WebSub. Lifetime: 30 days beyond the last follower.
`feeds.record`; read by following and the pipeline.
"""

feed_items = key_of("feed:{<feed_id>}:items")
"""Sorted set: item id by time last updated, the feed's order index. Lifetime: as `feed`. `posts.items`."""

feed_guids = key_of("feed:{<feed_id>}:guids")
"""Hash: guid → item id; outlives the item (tombstone). Lifetime: as `feed`. `posts.items`."""

feed_outbox = key_of("feed:{<feed_id>}:pending")
"""Set: the outbox, ids of stored posts that delivery lacks; a crash between the two loses none. Lifetime: as `feed`.
`posts.items`.
"""

feed_tombstones = key_of("feed:{<feed_id>}:tombstones")
"""Sorted set: guid of a deleted post by the Unix time when the feed last listed it. Lifetime: as `feed`, trimmed.
`posts.garbage`.
"""

feed_departed = key_of("feed:{<feed_id>}:departed")
"""Hash: guid of a post that isn't here, but had left timelines where an import comes from → its id in `gone` of these.
Lifetime: 400 days after the last such import. `posts.imported`; read when the feed lists the post.
"""

feed_subscribers = key_of("feed:{<feed_id>}:subscribers")
"""Set: `<user>/<channel uid>`, derived from the channels' own lists. Lifetime: as `feed`. `feeds.record`."""

feed_edition = key_of("feed:{<feed_id>}:edition")
"""String: random, another one with every change of `feed_subscribers`, so that lists that are remembered elsewhere are
known to be old. Lifetime: as `feed`. `feeds.record`.
"""

feed_fingerprints = key_of("feed:{<feed_id>}:marks")
"""String: hash of the document that was taken in last, and a fingerprint of each of its entries, so that they needn't
be read again (`formats.parse`). Lifetime: a day, after which all is read once more. `feeds.record`.
"""

feed_websub = key_of("feed:{<feed_id>}:websub")
"""Hash: what was agreed with the feed's hub: `callback <token>` → JSON with the lease and the secret that signs
deliveries; `to` (hub and topic), `tries`, `next`; `seen` (digests of deliveries), `spent` (Unix time until which its
processor time is used up). Lifetime: as `feed`. `push.store`.
"""

hub_counts = key_of("hub:<hub_host>")
"""Hash: what a hub did → how often: asked, verified, ended, denied, refused, delivered, forged, posts, missed.
Lifetime: 90 days after the last. `push.store`.
"""

hub_contact = key("hubs:contact")
"""Hash: `asked` and `heard`, Unix times when a hub was last asked for a subscription, and when one last reached a
callback. Lifetime: permanent. `push.store`.
"""

hub_of_feed = key_of("feed:{<feed_id>}:hub")
"""Hash: subscriptions at our own hub to what is stored of a feed, as `hub_of_user` has them. Lifetime: 15 days after
the last request or verification, longer than any lease. `push.hub.store`.
"""

hub_owners = key("hub:owners")
"""Set: who has topics that somebody has subscribed to at our own hub: `user <name>`, `feed <feed id>`. Lifetime:
permanent, derived. `push.hub.store`.
"""

hub_due = key("{hub}:due")
"""Sorted set: what our own hub has to do, by Unix time: an owner as `hub_owners` has them, whose topics may have
changed, or `<owner> <subscription>`; what a worker has in hand stands at the end of its claim. Lifetime: permanent,
derived. `push.hub.store`.
"""

hub_claims = key("{hub}:claims")
"""Hash: member of `hub_due` that a worker has in hand → the claim's token, and ` again` behind it where there is more
to do by now. Lifetime: permanent, entries go with the claim. `push.hub.store`.
"""

hub_callbacks = key_of("callbacks:<callback_host>")
"""Sorted set: subscriptions at our own hub whose callback is on that host, as in `hub_due`, by the end of their lease.
Lifetime: 15 days after the last change, trimmed. `push.hub.store`.
"""

hub_tallies = key_of("callbacks:<callback_host>:tallies")
"""Hash: what our own hub did for callbacks on that host → how often: verified, unverified, ended, denied, delivered,
failed, given_up, gone. Lifetime: 90 days after the last; an hour where nobody was ever verified. `push.hub.store`.
"""

feed_copy = key_of("copy:<digest>")
"""String: the feed cache's copy of a document (`cache.copy`), by the SHA-256 of its URL. Lifetime: as long as it is of
use, an hour at least in the server. `cache.redis_storage`.
"""

feed_copies = key("copies")
"""Sorted set: URL of every copy by Unix time of its end. Lifetime: permanent, trimmed. `cache.redis_storage`."""

# --- the pipeline ------------------------------------------------------------------------------------------------

STREAM_PREFIX = "stream:{"

stream = key_of("stream:{<stage>}")
"""Stream: messages from one stage to the next (`posts.values`). Lifetime: permanent; a message leaves when it is done.
`redis.streams`.
"""

stream_bytes = key_of("stream:{<stage>}:bytes")
"""String: bytes of what waits in the stream. Lifetime: permanent, gone while the stream is empty. `redis.streams`."""

stream_left_out = key_of("stream:{<stage>}:left-out")
"""String: random; messages were left out of that stream because it was full. Lifetime: permanent, gone when all of them
were made up for. `redis.streams`; written by `posts.ingest`, read by `delivery.look_ups`.
"""

events_stream = key("stream:{events}")
"""Stream: what happened to feeds and posts, for other programs. Lifetime: permanent, capped. `feeds.events`."""

# --- the schedule ------------------------------------------------------------------------------------------------

mute_ends = key("{mutes}:ends")
"""Sorted set: `<user> <channel uid or global> <URL in its comparison form>` of a mute, by the Unix time of its end.
Lifetime: permanent, entries go with the mute. `timelines.rules`.
"""

hosts_due = key("{hosts}:due")
"""Sorted set: host by Unix time of its next allowed request; a taken host stands at the end of its lease. Lifetime:
permanent. `feeds.queue`.
"""

hosts_leases = key("{hosts}:leases")
"""Hash: taken host → fencing token, `again <host>` → 1 where feeds came to a host that is taken, `*` → the last token
given out, and `* at` → the latest time at which hosts were taken. Lifetime: permanent, entries go with the lease.
`feeds.queue`.
"""

host_due = key_of("host:{<host_name>}:due")
"""Sorted set: feed id by Unix time of its next poll. Lifetime: permanent, empty keys vanish. `feeds.queue`."""

host = key_of("host:{<host_name>}")
"""Hash: `hold` (Unix time until which nothing is requested), `held:<feed>` (who asked for it), `free` (Unix time of the
end of its spacing), `token` (the newest lease that was used). Lifetime: 48 h. `feeds.queue`.
"""

# --- users -------------------------------------------------------------------------------------------------------

user = key_of("user:{<name>}")
"""Hash: `me`, `token_endpoint`, settings, `created` and `disabled` (Unix time), `registered` (1: by signing in),
`admin` (1), `shape` (grows when a channel's name or settings change), `rule_count` (mutes and blocks, once they were
counted), `move <feed id> <uid>` (the feed's items are on their way from that channel to the one named here, since that
time). Lifetime: permanent, or until 30 days after the user was disabled. `identity.store.accounts`,
`timelines.channels`, `timelines.channels.follows`.
"""

former_feeds = key_of("user:{<name>}:former-feeds")
"""Hash: id of a feed that the user followed → the feed that has taken its place. Lifetime: 400 days after the last one;
1,000 at most. `timelines.channels.follows`.
"""

token = key_of_two("user:{<name>}:token:<digest>")
"""Hash: `scope`, `client`, `created`, `expires`, `used` (Unix time of its last use, to within minutes; for one that an
app was granted it stands at the grant); where an app was granted it, `grant` (its id); where only one of its kind is to
be, `mark`; of a token of the user's own provider also `foreign`, `checked` (Unix time of the provider's last answer)
and `ends` (its own time of expiry), and `expires` is when it is asked again. Lifetime: permanent, or until it expires.
`identity.store.accounts`, `identity.store.foreign`; read by every request.
"""

tokens = key_of("user:{<name>}:tokens")
"""Set: digests of the user's tokens. Lifetime: permanent. `identity.store.accounts`."""

channels = key_of("user:{<name>}:channels")
"""Sorted set: channel uid by position. Lifetime: permanent. `timelines.channels`."""

removed_channels = key_of("user:{<name>}:channels:removed")
"""Sorted set: channel uid by time of removal from backend.json; restorable for 30 days. Permanent, trimmed.
`timelines.channels`.
"""

channel = key_of_two("user:{<name>}:channel:<uid>")
"""Hash: `name`, a field for each own setting (`max_items`, …; `filters` as JSON), `changed` (Unix time of the last
change by API), `topic` (the secret in the address of its topic), and `unread_from <feed id>`, the score below which
that feed's items come in as read, once the first ones came in. Permanent. `timelines.channels`, `push.hub.topics`.
"""

channel_feeds = key_of_two("user:{<name>}:channel:<uid>:feeds")
"""Hash: feed id → JSON of the subscription (`url`, `name`, `followed_at`, `first_feed`: the id that apps know it
by, where another feed has taken that one's place); the truth about who follows what. Permanent.
`timelines.channels.follows`.
"""

posts = key_of_two("user:{<name>}:zchannel:<uid>:posts")
"""Sorted set, the timeline: item id by published time. Permanent, cleaned. `timelines.add`."""

unread = key_of_two("user:{<name>}:zchannel:<uid>:unread")
"""Sorted set: the unread part of `posts`, same scores. Permanent, cleaned. `timelines.pages`."""

read = key_of_two("user:{<name>}:channel:<uid>:read")
"""Sorted set: read item id by time of reading. Permanent, cleaned. `timelines.pages`, `timelines.retention`."""

hidden = key_of_two("user:{<name>}:zchannel:<uid>:hidden")
"""Sorted set: muted item id by published time. Permanent, cleaned. `timelines.rules`."""

hidden_read = key_of_two("user:{<name>}:zchannel:<uid>:hidden-read")
"""Sorted set: the read ones among `hidden`, by time of reading. Permanent, cleaned. `timelines.rules`."""

gone = key_of_two("user:{<name>}:channel:<uid>:gone")
"""Sorted set: ids that left, by time of leaving in whole seconds plus reason/16 (`model.reader.Reason`). Permanent,
trimmed when the item can't return. Every add asks it. `timelines.remove`.
"""

arrivals = key_of("user:{<name>}:arrivals")
"""Sorted set: id of each item that a channel shows, removed channels included, by its place in the order in which items
came to this user: Unix time in microseconds, each behind all before it. Permanent, cleaned with `posts`.
`timelines.sync.arrivals`.
"""

arrivals_again = key_of("user:{<name>}:arrivals:again")
"""Sorted set: id of each item that a channel began to show when it had its place in `arrivals` already (it was moved,
saved, or listed by a second feed), by the place at which that happened last. Permanent, cleaned with `arrivals`.
`timelines.sync.arrivals`.
"""

arrivals_more = key_of("user:{<name>}:arrivals:more")
"""Hash: `last` → the last place that was given in `arrivals`; and for each item that several channels show, item id →
how many beside the first. Permanent, cleaned with `posts`. `timelines.sync.arrivals`.
"""

muted = key_of_two("user:{<name>}:muted:<uid>")
"""Hash: URL in its comparison form → as it was given; `uid` may be `global`. Lifetime: permanent. `timelines.rules`."""

blocked = key_of_two("user:{<name>}:blocked:<uid>")
"""Hash: URL in its comparison form → as it was given; `uid` may be `global`. Lifetime: permanent. `timelines.rules`."""

behind = key_of("user:{<name>}:behind")
"""Hash: `<uid> <feed id>` → `<score> <count>`: posts of that feed from that place on wait to be brought into that
timeline; the count grows with every delivery that was left out. Permanent, emptied when the user reads.
`timelines.add`.
"""

imported = key_of("user:{<name>}:imported")
"""Hash: id of a post in another server's data → item id here, `<uid> <id>` → 1 once that channel has it; for posts of
no feed, which no guid map knows. Lifetime: 400 days after the last import. `posts.imported`.
"""

hub_of_user = key_of("user:{<name>}:hub")
"""Hash: subscriptions at our own hub to the user's topics: `sub <subscription>` → JSON with callback, topic, secret,
lease and the version that was delivered last; `ask <subscription>` → JSON of the request that waits for its
verification. Lifetime: 15 days after the last request or verification, longer than any lease. `push.hub.store`.
"""

LIVE_EVENTS_PREFIX = "events:"
"""Not that of the user's other keys, so that Redis can report what comes to these streams, and nothing else."""

live_events = key_of("events:{<name>}")
"""Stream: what changed in the channels of a user to whom an app listens: `event`, `channel`, `came` (item ids) or
`order`. Lifetime: hours after the last app has listened, capped. `timelines.sync.live_events`; written by the scripts
that change something (redis/lua/parts/events.lua).
"""

posting = key_of("user:{<name>}:posting")
"""Hash: a browser (22 digits of the SHA-256 of its secret) → Unix time, space, and what it posts with on the user's
site, encrypted with that secret: endpoint and token. 10 browsers at most. Lifetime: 400 days after the last was added.
`reader.answering.answers`.
"""

answered = key_of_two("user:{<name>}:answered:<answer>")
"""String: the address of an answer, by its digest, on the user's site, `-` while it is being published. Lifetime: 10
minutes. `reader.answering.answers`.
"""

devices_told = key_of("user:{<name>}:devices-told")
"""Hash: session id of a browser that hears of new posts → JSON: its name, address at a push service, keys to encrypt
with, channels, language, `since`. Permanent, 10 at most. `webpush.devices`.
"""

device_states = key_of("user:{<name>}:devices-told:states")
"""Hash: member of `devices_told` → JSON: up to which place of `arrivals` its user was told, when, and failures; `test
<member>` → 1 where a test message is to be sent. Permanent, entries go with the device. `webpush.devices`.
"""

undo = key_of("user:{<name>}:undo")
"""Hash: `id` of what the user did last to many posts, `count` of them, `in <uid>` → ids of those that it marked as
read, as 8 bytes each, and `follow <uid>` → the follow that it ended, as JSON. Lifetime: 10 minutes.
`reader.reading.undo`.
"""

list_import = key_of("user:{<name>}:list_import")
"""String, JSON: the user's last import of a list of feeds on a page: how far it is, its report. Lifetime: an hour.
`transfer.list_imports`.
"""

mentions = key_of("user:{<name>}:mentions")
"""Hash: id of a webmention (a digest of source and target) → JSON: source, target, its state, what the source says of
itself. Permanent, 2,000 at most. `webmention.store`.
"""

mentions_waiting = key_of("user:{<name>}:mentions:waiting")
"""Sorted set: id of a webmention whose source is to be looked at, by the Unix time for that. Permanent, 200 at most.
`webmention.store`.
"""

mentions_by_time = key_of("user:{<name>}:mentions:by-time")
"""Sorted set: id of every webmention by Unix time of its last change. Permanent, 2,000 at most. `webmention.store`."""

follows = key_of_two("user:{<name>}:follows:<day>")
"""String: how many feeds the user has begun to follow in apps on that day (Unix time divided by 86,400). Lifetime: two
days. `timelines.channels`.
"""

# --- output feeds ------------------------------------------------------------------------------------------------

outputs = key_of("user:{<name>}:outputs")
"""Set: names of the user's output feeds, those that backend.json has removed included. Lifetime: permanent.
`outputs.store`.
"""

output_addresses = key_of("user:{<name>}:output-addresses")
"""Hash: SHA-256 of the secret in the address of an output feed → the feed's name, or '' where it was revoked. Lifetime:
permanent, 1,000 at most. `outputs.store`.
"""

output = key_of_two("user:{<name>}:output:<feed>")
"""Hash, an output feed: `id` (UUID), `secret` (in its address), its settings (`title`, `channel`, `search`, `filters`
as JSON, `max_impressions`, `max_age`, `public`), `created`, `changed` (its settings), `modified` (what it shows),
`removed` (from backend.json; Unix times), `source` (when its channel was made), `editions` (counter of publications);
`place`, up to which it has taken in what came to its user, and `taken_from`, its source then. Lifetime: permanent.
`outputs.store`.
"""

output_published = key_of_two("user:{<name>}:output:<feed>:published")
"""Sorted set: item id by Unix time of publication. Lifetime: permanent. `outputs.store`."""

output_imported = key_of_two("user:{<name>}:output:<feed>:imported")
"""Sorted set: id of an item that was shown as often as it may be, by the time of the last impression. Lifetime:
permanent. `outputs.store`.
"""

output_edited = key_of_two("user:{<name>}:output:<feed>:edited")
"""Sorted set: id of every item that was ever put in, those that were removed too, by the time at which it was published
or removed last. Lifetime: permanent, trimmed. `outputs.store`.
"""

output_impressions = key_of_two("user:{<name>}:output:<feed>:impressions")
"""Hash: item id → how often it was shown since it was published, and the times of the last hundred. Lifetime:
permanent. `outputs.store`.
"""

output_editions = key_of_two("user:{<name>}:output:<feed>:editions")
"""Hash: item id → number of its publication, and the post's `hash` at that time. Permanent. `outputs.store`."""

output_held = key_of_two("user:{<name>}:output:<feed>:held")
"""Hash: a reply that is being sent → Unix time until which it counts, and `<item id>:<edition>` of what it shows.
Lifetime: ten minutes after the last one began. `outputs.store`.
"""

output_offered = key_of_two("user:{<name>}:output:<feed>:offered")
"""Set: item ids that the channel or search brought in; picks make room of them. Permanent. `outputs.store`."""

# --- what is posted here -----------------------------------------------------------------------------------------

sources = key_of("user:{<name>}:sources")
"""Hash: id of a source → JSON: `name`, `seed` (secret, of which addresses of its posts are made), `created`, `changed`
(Unix time), and `app` of one that an app was given. Lifetime: permanent. `micropub.sources`.
"""

posted_lately = key_of_two("user:{<name>}:posted:<digest>")
"""String: the token in the address of a post, by SHA-256 of its source and of what was sent, by which a retry is known.
Lifetime: ten minutes. `micropub.posting`.
"""

deleted_post = key_of_two("user:{<name>}:deleted:<digest>")
"""String: JSON of a post that its source has deleted and may restore, or `restored <token>` where it has, by SHA-256 of
source and token; a user has 200. Lifetime: 30 days. `micropub.posting`.
"""

deleted_posts = key_of("user:{<name>}:deleted")
"""Sorted set: the last parts of the user's `deleted_post` keys, by the Unix time at which each was written last.
Lifetime: 30 days after the last. `micropub.posting`.
"""

media = key_of("user:{<name>}:media")
"""Set: tokens in the addresses of the files that the user's sources have sent. Lifetime: permanent. `micropub.media`.
"""

medium = key_of_two("user:{<name>}:medium:<token>")
"""Hash, a file that a source has sent: `data`, `size` (bytes that it counts), `type`, `digest` (SHA-256), by `post
<feed> <guid>` the posts that show it, and `unused`, the Unix time since which none of them is there. Lifetime:
permanent, until its user deletes it, or it was unused for 31 days. `micropub.media`.
"""

# --- local sign-in -----------------------------------------------------------------------------------------------

credentials = key_of("user:{<name>}:credentials")
"""Hash: `password` (argon2id in PHC form), `changed` (Unix time), `handle` (what the user's passkeys call them).
Lifetime: permanent, until the user is disabled. `identity.store.credentials`.
"""

passkeys = key_of("user:{<name>}:passkeys")
"""Hash: credential id in base64url → JSON: `name`, `key` (public), `count`, `created`, `used`, `transports`. Lifetime:
permanent, until the user is disabled. `identity.store.credentials`.
"""

invitation = key_of("user:{<name>}:invitation")
"""String: SHA-256 of the one-time link by which the user chooses how to sign in. Lifetime: 24 hours, once.
`identity.store.credentials`.
"""

devices = key_of("user:{<name>}:devices")
"""Sorted set: SHA-256 of a cookie by Unix time of the last sign-in there; such devices have an allowance of attempts of
their own. Lifetime: 400 days after the last one. `identity.store.credentials`.
"""

confirmed = key_of_two("user:{<name>}:confirmed:<session>")
"""String: empty; in the session of that id the user has just shown again who they are. Lifetime: 10 minutes.
`identity.store.credentials`.
"""

handles = key("identity:handles")
"""Hash: handle that passkeys give → user. Permanent, members go with their users. `identity.store.credentials`."""

ceremony = key_of("identity:ceremony:<digest>")
"""String: JSON of a passkey's challenge, and for whom it was made; by SHA-256 of the secret that the browser was given
with it; or for whom the sign-in link is that the server shows at its start. Lifetime: 5 minutes, once.
`identity.store.credentials`.
"""

attempts = key_of("identity:attempts:<digest>")
"""Hash: `count` of attempts that failed or are under way, `until` (Unix time of the next that is let through); by
SHA-256 of what is counted: a network, a device. Lifetime: 24 hours after the last; of challenges for passkeys five
minutes. `identity.store.credentials`.
"""

in_minute = key_of_two("identity:minute:<digest>:<minute>")
"""String: how often it happened in that minute (Unix time divided by 60); by SHA-256 of what is counted. Lifetime: two
minutes. `identity.store.credentials`.
"""

# --- tokens of other providers -----------------------------------------------------------------------------------

foreign = key_of("user:{<name>}:foreign")
"""Sorted set: digest of each token that the user's own provider has vouched for (`token`) by the Unix time of the
end of that record. Lifetime: that of the last of them. `identity.store.foreign`.
"""

foreign_checks = key_of("user:{<name>}:foreign:checks")
"""Hash: `known`, `first`, `rest` → how many unknown tokens the user's provider was asked about this minute out of each
share; `known <digest>` … the same by the SHA-256 of the network that they came from. Lifetime: a minute.
`identity.store.foreign`.
"""

foreign_networks = key_of("user:{<name>}:foreign:networks")
"""Sorted set: SHA-256 of each network from which a good token of the user's own provider came, by Unix time of the
last. Lifetime: 30 days after that; 50 at most. `identity.store.foreign`.
"""

foreign_refused = key_of_two("user:{<name>}:foreign:refused:<digest>")
"""String: why the user's provider doesn't vouch for that token, or couldn't be asked; or that it was one of ours, which
has ended. Lifetime: a minute, or seconds; a day. `identity.store.foreign`, `identity.store.accounts`.
"""

foreign_owner = key_of("foreign:<digest>")
"""String: the user whose provider vouched for that token, to find them at the address without a name. Lifetime: as the
token's record. `identity.store.foreign`.
"""

# --- sessions of our own pages -----------------------------------------------------------------------------------

session = key_of_two("user:{<name>}:session:<digest>")
"""Hash: `id`, `me`, `how`, `device`, `created`, `seen`, `renewed` (Unix time), `salt`, `next` and `previous` (digests).
Lifetime: 30 days from the last visit; 24 h after it was renewed. `identity.store.sessions`.
"""

sessions = key_of("user:{<name>}:sessions")
"""Set: digests of the user's sessions. Lifetime: as the last session. `identity.store.sessions`."""

sign_in = key_of("identity:sign-in:<digest>")
"""String: JSON of a sign-in under way (whose, with which provider, in which browser, where to afterwards), by SHA-256
of its `state`. Lifetime: 15 minutes, once. `identity.store.sessions`.
"""

# --- our own IndieAuth server ------------------------------------------------------------------------------------

code = key_of_two("user:{<name>}:code:<digest>")
"""Hash, an authorization code of our own IndieAuth server: `client`, `title`, `redirect`, `scope`, `challenge`, `seed`,
`expires`, `used`, `use`, `grant`, `source` (id of the one that the app is to post to). Lifetime: an hour.
`identity.store.grants`.
"""

grant = key_of_two("user:{<name>}:grant:<grant_id>")
"""Hash, what an app may do: `client`, `title`, `scope`, `created`, `renewed`, `expires`, `refresh` and `before`
(SHA-256 of the refresh token and of the one before), `seed`, `before_seed`, `tokens`, `source` (where the app posts to,
if anywhere), `used` (Unix time at which one of its tokens was used last, to within minutes). Lifetime: a year after its
last renewal. `identity.store.grants`.
"""

grants = key_of("user:{<name>}:grants")
"""Set: ids of the user's grants. Lifetime: permanent. `identity.store.grants`."""

# --- what is deleted together ------------------------------------------------------------------------------------

USER_KEYS = tuple(named for form, named in _ONE.items() if "{<name>}" in form and ":channels" not in form)
"""All keys that belong to a user beside those of channels, files, tokens and the like, for the user's deletion."""

CHANNEL_KEYS = tuple(named for form, named in _TWO.items() if "<uid>" in form)
"""All keys that belong to one channel, for its deletion."""

OUTPUT_KEYS = tuple(named for form, named in _TWO.items() if "<feed>" in form)
"""All keys that belong to one output feed, for its deletion, in the order in which scripts are given them."""
