"""Every Redis key of the product, named once; nothing else builds a key string but `identitykeys`, which goes on here.

A function's docstring says: type, member or field, score or value; lifetime; who writes; who reads. Braces are Redis
Cluster hash tags: one user's keys share a slot, one feed's keys share a slot, one host's keys share a slot, and no
script touches two of them.

`Lifetime: permanent` keys live until their owner is deleted. Every other key has a time to live; a test fails on any
key that has neither a time to live nor a line here.

Lua never joins key strings. Where a script walks all channels of a user it is given patterns made by `pattern`,
in which `*` stands for the channel uid.
"""

from __future__ import annotations

from collections.abc import Callable

# --- the instance ------------------------------------------------------------------------------------------------


def schema() -> str:
    """String: version of this layout. Lifetime: permanent. Written and read by `migrations`."""
    return "meta:schema"


def instance() -> str:
    """String: a random name of this data, by which processes see that it was lost. Permanent. `configuration.store`."""
    return "meta:instance"


def image_secret() -> str:
    """String: a random secret that signs the addresses of pictures. Permanent. `reader.reading.images`."""
    return "meta:images"


def push_key() -> str:
    """String: the private key by which push services know this server (RFC 8292). Permanent. `webpush.devices`."""
    return "meta:webpush"


def lease(what: str) -> str:
    """String: token of the process that does it just now: `migration`, `config` (applying backend.json),
    `<what>:<shard>` (what is due there, see `due`), `saving:<feed>`, `copy:<SHA-256 of a URL>` (asking that publisher),
    `foreign:<user>:<digest>` (asking about that token), or whose turn it was last: `upkeep:<part>`. Lifetime: the
    lease. `redis.lease`.
    """
    return f"lease:{what}"


def due(what: str, shard: int | str) -> str:
    """Sorted set: what upkeep has to look at, by Unix time: `<user> <channel uid>` (`retention`), user (`follows`,
    `mentions`), `<user> <device>` (`devices`), in shards by user name, feed id (`websub`), and a daily job (`daily`).
    Lifetime: permanent, derived.
    `redis.due`.
    """
    return f"due:{what}:{shard}"


def item_ids() -> str:
    """String: counter of item ids. Lifetime: permanent. `posts.items`."""
    return "ids:item"


def feed_ids() -> str:
    """String: counter of feed ids. Lifetime: permanent. `feeds.record`."""
    return "ids:feed"


def users() -> str:
    """Set of user names, disabled ones included. Lifetime: permanent. `identity.store.accounts`."""
    return "users"


def seen() -> str:
    """Sorted set: user by Unix time of their last request, to within minutes. Lifetime: permanent, members go with
    their users. `identity.store.accounts`; read by delivery.
    """
    return "users:seen"


def applied_config() -> str:
    """Hash: what was last applied from backend.json (`document`, `hash`, `mtime`, `at`, `place`), and the edit that is
    being applied (`begun`). Permanent. `configuration.store`.
    """
    return "config:applied"


def config_changes() -> str:
    """List: JSON of Unix time and text of each change of backend.json that was applied lately, the last edit first; 100
    at most. Permanent. `configuration.store`.
    """
    return "config:changes"


def service_tokens() -> str:
    """Hash: name of a program that reads the post store → JSON: `digest` (SHA-256 of its token), `created`, `expires`.
    Permanent. `identity.store.accounts`.
    """
    return "services"


def settings() -> str:
    """Hash: settings in force as JSON: `instance`, and `user:<name>` for what holds for a user. Permanent.
    `configuration.store`; read by services.
    """
    return "config:settings"


def probe() -> str:
    """String: empty; shows whether Redis takes writes. Lifetime: a minute. Written by `redis.presence` for /health,"""
    return "meta:probe"


def workers() -> str:
    """Sorted set: worker name by last sign of life. Lifetime: permanent, trimmed. `redis.presence`; read by /health."""
    return "workers"


def process_counts() -> str:
    """Hash: sample of a metric (JSON: name, labels) → what all workers have counted. Lifetime: a day after the last
    count. `redis.presence`; read by /metrics.
    """
    return "metrics"


def hour(number: int | str) -> str:
    """Hash: `polls`, `failed`, `posts`, `planned`, `in_time`, `late_seconds` → what workers have counted in that hour
    (Unix time divided by 3,600). Lifetime: a week after its end. `upkeep.hours`; read by the admin's pages.
    """
    return f"hour:{number}"


def survey() -> str:
    """String: JSON of sums over all followed feeds (`upkeep.survey`). Lifetime: a day after the last look."""
    return "survey"


def surveyed_feeds() -> str:
    """Sorted set: feed id by state and Unix time of its last answer, as the last look at all feeds found them.
    Lifetime: a day after it. `upkeep.survey`.
    """
    return "survey:feeds"


def surveyed_attention() -> str:
    """Hash: user → JSON: channel uid → how many of its feeds need attention, as the last look found them; a channel
    where none does is left out. Lifetime: a day after it. `upkeep.survey`; read by the reader's list of channels.
    """
    return "survey:attention"


def surveyed_holds() -> str:
    """Sorted set: host by Unix time until which nothing is requested from it, as the last look found them. Lifetime:
    a day after it. `upkeep.survey`.
    """
    return "survey:holds"


# --- items -------------------------------------------------------------------------------------------------------

ITEM_PREFIX = "item:"


def item(item_id: str) -> str:
    """Hash: `ID`, `Published`, `Data` (wire JSON), `feed`, `guid`, `written_guid` (where that is another), `hash`,
    `version`, `confirmed`, `untold` (version of an edit not announced yet), `score`, `updated`, `discovered`, `author`,
    `link`, `twin` (common identity with duplicates), `twin_at` (Unix time when it was last registered), `incomplete`,
    `asked`, `condemned`, `was` (duplicates in feeds that have become this one) and whatever a post was saved with.
    Lifetime: as long as a timeline refers to it. `posts.items`.
    """
    return f"{ITEM_PREFIX}{item_id}"


def duplicates(identity: str) -> str:
    """Set: `<item id> <feed id> <host> <link host>` of items with the same normalised guid and link. Lifetime: 400
    days after the last write, prolonged while a feed lists the post. `posts.duplicates`.
    """
    return f"twins:{identity}"


# --- feeds -------------------------------------------------------------------------------------------------------


def feeds_by_url() -> str:
    """Hash: canonical URL → feed id, and a Unix time behind it where the feed was found gone. Lifetime: permanent; the
    sweep takes those whose feed stays gone. `feeds.url_index`.
    """
    return "feeds:by-url"


def feed(feed_id: str) -> str:
    """Hash: url, title, photo, validators, schedule, health, WebSub. Lifetime: 30 days beyond the last follower.
    `feeds.record`; read by following and the pipeline.
    """
    return f"feed:{{{feed_id}}}"


def feed_items(feed_id: str) -> str:
    """Sorted set: item id by time last updated, the feed's order index. Lifetime: as `feed`. `posts.items`."""
    return f"feed:{{{feed_id}}}:items"


def feed_guids(feed_id: str) -> str:
    """Hash: guid → item id; outlives the item (tombstone). Lifetime: as `feed`. `posts.items`."""
    return f"feed:{{{feed_id}}}:guids"


def feed_outbox(feed_id: str) -> str:
    """Set: the outbox, ids of stored posts that delivery lacks; a crash between the two loses none. Lifetime: as
    `feed`. `posts.items`.
    """
    return f"feed:{{{feed_id}}}:pending"


def feed_tombstones(feed_id: str) -> str:
    """Sorted set: guid of a deleted post by the Unix time when the feed last listed it. Lifetime: as `feed`, trimmed.
    `posts.garbage`.
    """
    return f"feed:{{{feed_id}}}:tombstones"


def feed_departed(feed_id: str) -> str:
    """Hash: guid of a post that isn't here, but had left timelines where an import comes from → its id in `gone` of
    these. Lifetime: 400 days after the last such import. `posts.imported`; read when the feed lists the post.
    """
    return f"feed:{{{feed_id}}}:departed"


def feed_subscribers(feed_id: str) -> str:
    """Set: `<user>/<channel uid>`, derived from the channels' own lists. Lifetime: as `feed`. `feeds.record`."""
    return f"feed:{{{feed_id}}}:subscribers"


def feed_edition(feed_id: str) -> str:
    """String: random, another one with every change of `feed_subscribers`, so that lists that are remembered elsewhere
    are known to be old. Lifetime: as `feed`. `feeds.record`.
    """
    return f"feed:{{{feed_id}}}:edition"


def feed_fingerprints(feed_id: str) -> str:
    """String: hash of the document that was taken in last, and a fingerprint of each of its entries, so that they
    needn't be read again (`formats.parse`). Lifetime: a day, after which all is read once more. `feeds.record`.
    """
    return f"feed:{{{feed_id}}}:marks"


def feed_websub(feed_id: str) -> str:
    """Hash: what was agreed with the feed's hub: `callback <token>` → JSON with the lease and the secret that signs
    deliveries; `to` (hub and topic), `tries`, `next`; `seen` (digests of deliveries), `spent` (Unix time until which
    its processor time is used up). Lifetime: as `feed`. `push.store`.
    """
    return f"feed:{{{feed_id}}}:websub"


def hub_counts(hub_host: str) -> str:
    """Hash: what a hub did → how often: asked, verified, ended, denied, refused, delivered, forged, posts, missed.
    Lifetime: 90 days after the last. `push.store`.
    """
    return f"hub:{hub_host}"


def hub_contact() -> str:
    """Hash: `asked` and `heard`, Unix times when a hub was last asked for a subscription, and when one last reached a
    callback. Lifetime: permanent. `push.store`.
    """
    return "hubs:contact"


def hub_of_feed(feed_id: str) -> str:
    """Hash: subscriptions at our own hub to what is stored of a feed, as `hub_of_user` has them. Lifetime: 15 days
    after the last change, longer than any lease. `push.hub.store`.
    """
    return f"feed:{{{feed_id}}}:hub"


def hub_owners() -> str:
    """Set: who has topics that somebody has subscribed to at our own hub: `user <name>`, `feed <feed id>`. Lifetime:
    permanent, derived. `push.hub.store`.
    """
    return "hub:owners"


def hub_due() -> str:
    """Sorted set: what our own hub has to do, by Unix time: an owner as `hub_owners` has them, whose topics may have
    changed, or `<owner> <subscription>`; what a worker has in hand stands at the end of its claim. Lifetime: permanent,
    derived. `push.hub.store`.
    """
    return "{hub}:due"


def hub_claims() -> str:
    """Hash: member of `hub_due` that a worker has in hand → the claim's token, and ` again` behind it where there is
    more to do by now. Lifetime: permanent, entries go with the claim. `push.hub.store`.
    """
    return "{hub}:claims"


def hub_callbacks(callback_host: str) -> str:
    """Sorted set: subscriptions at our own hub whose callback is on that host, as in `hub_due`, by the end of their
    lease. Lifetime: 15 days after the last change, trimmed. `push.hub.store`.
    """
    return f"callbacks:{callback_host}"


def hub_tallies(callback_host: str) -> str:
    """Hash: what our own hub did for callbacks on that host → how often: verified, unverified, ended, denied,
    delivered, failed, given_up, gone. Lifetime: 90 days after the last; an hour where nobody was ever verified.
    `push.hub.store`.
    """
    return f"callbacks:{callback_host}:tallies"


def feed_copy(digest: str) -> str:
    """String: the feed cache's copy of a document (`cache.copy`), by the SHA-256 of its URL. Lifetime: as long as it
    is of use, an hour at least in the server. `cache.redis_storage`.
    """
    return f"copy:{digest}"


def feed_copies() -> str:
    """Sorted set: URL of every copy by Unix time of its end. Lifetime: permanent, trimmed. `cache.redis_storage`."""
    return "copies"


# --- the pipeline ------------------------------------------------------------------------------------------------

STREAM_PREFIX = "stream:{"


def stream(name: str) -> str:
    """Stream: messages from one stage to the next (`posts.values`). Lifetime: permanent; a message leaves when it
    is done. `redis.streams`.
    """
    return f"{STREAM_PREFIX}{name}}}"


def stream_bytes(name: str) -> str:
    """String: bytes of what waits in the stream. Lifetime: permanent, gone while the stream is empty.
    `redis.streams`.
    """
    return f"stream:{{{name}}}:bytes"


def stream_left_out(name: str) -> str:
    """String: random; messages were left out of that stream because it was full. Lifetime: permanent, gone when all
    of them were made up for. `redis.streams`; written by `posts.ingest`, read by `delivery.look_ups`.
    """
    return f"stream:{{{name}}}:left-out"


def events_stream() -> str:
    """Stream: what happened to feeds and posts, for other programs. Lifetime: permanent, capped.
    `feeds.events`.
    """
    return "stream:{events}"


# --- the schedule ------------------------------------------------------------------------------------------------


def mute_ends() -> str:
    """Sorted set: `<user> <channel uid or global> <URL in its comparison form>` of a mute, by the Unix time
    of its end. Lifetime: permanent, entries go with the mute. `timelines.rules`.
    """
    return "{mutes}:ends"


def hosts_due() -> str:
    """Sorted set: host by Unix time of its next allowed request; a taken host stands at the end of its lease.
    Lifetime: permanent. `feeds.queue`.
    """
    return "{hosts}:due"


def hosts_leases() -> str:
    """Hash: taken host → fencing token, `again <host>` → 1 where feeds came to a host that is taken, `*` → the last
    token given out, and `* at` → the latest time at which hosts were taken. Lifetime: permanent, entries go with the
    lease. `feeds.queue`.
    """
    return "{hosts}:leases"


def host_due(host_name: str) -> str:
    """Sorted set: feed id by Unix time of its next poll. Lifetime: permanent, empty keys vanish.
    `feeds.queue`.
    """
    return f"host:{{{host_name}}}:due"


def host(host_name: str) -> str:
    """Hash: `hold` (Unix time until which nothing is requested), `held:<feed>` (who asked for it), `free` (Unix time of
    the end of its spacing), `token` (the newest lease that was used). Lifetime: 48 h. `feeds.queue`.
    """
    return f"host:{{{host_name}}}"


# --- users -------------------------------------------------------------------------------------------------------


def user(name: str) -> str:
    """Hash: `me`, `token_endpoint`, settings, `created` and `disabled` (Unix time), `registered` (1: by signing in),
    `admin` (1), `shape` (grows when a channel's name or settings change), `rule_count` (mutes and blocks, once they
    were counted), `move <feed id> <uid>` (the feed's items are on their way from that channel to the one named here,
    since that time). Lifetime: permanent, or until 30 days after the user was disabled. `identity.store.accounts`,
    `timelines.channels`, `timelines.channels.follows`.
    """
    return f"user:{{{name}}}"


def former_feeds(name: str) -> str:
    """Hash: id of a feed that the user followed → the feed that has taken its place. Lifetime: 400 days after the last
    one; 1,000 at most. `timelines.channels.follows`.
    """
    return f"user:{{{name}}}:former-feeds"


def token(name: str, digest: str) -> str:
    """Hash: `scope`, `client`, `created`, `expires`, `used` (Unix time of its last use, to within minutes; for one that
    an app was granted it stands at the grant); where an app was granted it, `grant` (its id); where only one of
    its kind is to be, `mark`; of a token of the user's own provider also `foreign`, `checked` (Unix time of the
    provider's last answer) and `ends` (its own time of expiry), and `expires` is when it is asked again. Lifetime:
    permanent, or until it expires. `identity.store.accounts`, `identity.store.foreign`; read by every request.
    """
    return f"user:{{{name}}}:token:{digest}"


def tokens(name: str) -> str:
    """Set: digests of the user's tokens. Lifetime: permanent. `identity.store.accounts`."""
    return f"user:{{{name}}}:tokens"


def channels(name: str) -> str:
    """Sorted set: channel uid by position. Lifetime: permanent. `timelines.channels`."""
    return f"user:{{{name}}}:channels"


def removed_channels(name: str) -> str:
    """Sorted set: channel uid by time of removal from backend.json; restorable for 30 days. Permanent, trimmed.
    `timelines.channels`.
    """
    return f"user:{{{name}}}:channels:removed"


def channel(name: str, uid: str) -> str:
    """Hash: `name`, a field for each own setting (`max_items`, …; `filters` as JSON), `changed` (Unix time of the
    last change by API), `topic` (the secret in the address of its topic), and `unread_from <feed id>`, the score below
    which that feed's items come in as read, once the first ones came in. Permanent. `timelines.channels`,
    `push.hub.topics`.
    """
    return f"user:{{{name}}}:channel:{uid}"


def channel_feeds(name: str, uid: str) -> str:
    """Hash: feed id → JSON of the subscription (`url`, `name`, `followed_at`); the truth about who follows what.
    Permanent. `timelines.channels.follows`.
    """
    return f"user:{{{name}}}:channel:{uid}:feeds"


def posts(name: str, uid: str) -> str:
    """Sorted set, the timeline: item id by published time. Permanent, cleaned. `timelines.add`."""
    return f"user:{{{name}}}:zchannel:{uid}:posts"


def unread(name: str, uid: str) -> str:
    """Sorted set: the unread part of `posts`, same scores. Permanent, cleaned. `timelines.pages`."""
    return f"user:{{{name}}}:zchannel:{uid}:unread"


def read(name: str, uid: str) -> str:
    """Sorted set: read item id by time of reading. Permanent, cleaned. `timelines.pages`,
    `timelines.retention`.
    """
    return f"user:{{{name}}}:channel:{uid}:read"


def hidden(name: str, uid: str) -> str:
    """Sorted set: muted item id by published time. Permanent, cleaned. `timelines.rules`."""
    return f"user:{{{name}}}:zchannel:{uid}:hidden"


def hidden_read(name: str, uid: str) -> str:
    """Sorted set: the read ones among `hidden`, by time of reading. Permanent, cleaned. `timelines.rules`."""
    return f"user:{{{name}}}:zchannel:{uid}:hidden-read"


def gone(name: str, uid: str) -> str:
    """Sorted set: ids that left, by time of leaving in whole seconds plus reason/16
    (`model.reader.Reason`). Permanent, trimmed when the item can't return. Every add asks it.
    `timelines.remove`.
    """
    return f"user:{{{name}}}:channel:{uid}:gone"


def arrivals(name: str) -> str:
    """Sorted set: id of each item that a channel shows, removed channels included, by its place in the order in which
    items came to this user: Unix time in microseconds, each behind all before it. Permanent, cleaned with `posts`.
    `timelines.sync.arrivals`.
    """
    return f"user:{{{name}}}:arrivals"


def arrivals_again(name: str) -> str:
    """Sorted set: id of each item that a channel began to show when it had its place in `arrivals` already (it was
    moved, saved, or listed by a second feed), by the place at which that happened last. Permanent, cleaned with
    `arrivals`. `timelines.sync.arrivals`.
    """
    return f"user:{{{name}}}:arrivals:again"


def arrivals_more(name: str) -> str:
    """Hash: `last` → the last place that was given in `arrivals`; and for each item that several channels show, item id
    → how many beside the first. Permanent, cleaned with `posts`. `timelines.sync.arrivals`.
    """
    return f"user:{{{name}}}:arrivals:more"


def muted(name: str, uid: str) -> str:
    """Hash: URL in its comparison form → as it was given; `uid` may be `global`. Lifetime: permanent.
    `timelines.rules`.
    """
    return f"user:{{{name}}}:muted:{uid}"


def blocked(name: str, uid: str) -> str:
    """Hash: URL in its comparison form → as it was given; `uid` may be `global`. Lifetime: permanent.
    `timelines.rules`.
    """
    return f"user:{{{name}}}:blocked:{uid}"


def behind(name: str) -> str:
    """Hash: `<uid> <feed id>` → `<score> <count>`: posts of that feed from that place on wait to be brought into that
    timeline; the count grows with every delivery that was left out. Permanent, emptied when the user reads.
    `timelines.add`.
    """
    return f"user:{{{name}}}:behind"


def imported(name: str) -> str:
    """Hash: id of a post in another server's data → item id here, `<uid> <id>` → 1 once that channel has it; for posts
    of no feed, which no guid map knows. Lifetime: 400 days after the last import. `posts.imported`.
    """
    return f"user:{{{name}}}:imported"


def hub_of_user(name: str) -> str:
    """Hash: subscriptions at our own hub to the user's topics: `sub <subscription>` → JSON with callback, topic,
    secret, lease and the version that was delivered last; `ask <subscription>` → JSON of the request that waits for its
    verification. Lifetime: 15 days after the last change, longer than any lease. `push.hub.store`.
    """
    return f"user:{{{name}}}:hub"


LIVE_EVENTS_PREFIX = "events:"
"""Not that of the user's other keys, so that Redis can report what comes to these streams, and nothing else."""


def live_events(name: str) -> str:
    """Stream: what changed in the channels of a user to whom an app listens: `event`, `channel`, `came` (item ids) or
    `order`. Lifetime: hours after the last app has listened, capped. `timelines.sync.live_events`;
    written by the scripts that change something (redis/lua/parts/changes.lua).
    """
    return f"{LIVE_EVENTS_PREFIX}{{{name}}}"


def posting(name: str) -> str:
    """Hash: a browser (22 digits of the SHA-256 of its secret) → Unix time, space, and what it posts with on the user's
    site, encrypted with that secret: endpoint and token. 10 browsers at most. Lifetime: 400 days after the last was
    added. `reader.answering.answers`.
    """
    return f"user:{{{name}}}:posting"


def answered(name: str) -> str:
    """Hash: digest of an answer → its address on the user's site, `-` while it is being published. Lifetime: 10
    minutes. `reader.answering.answers`.
    """
    return f"user:{{{name}}}:answered"


def devices_told(name: str) -> str:
    """Hash: session id of a browser that hears of new posts → JSON: its name, address at a push service, keys to
    encrypt with, channels, language, `since`. Permanent, 10 at most. `webpush.devices`.
    """
    return f"user:{{{name}}}:devices-told"


def device_states(name: str) -> str:
    """Hash: member of `devices_told` → JSON: up to which place of `arrivals` its user was told, when, and failures;
    `test <member>` → 1 where a test message is to be sent. Permanent, entries go with the device. `webpush.devices`.
    """
    return f"user:{{{name}}}:devices-told:states"


def undo(name: str) -> str:
    """Hash: `id` of what the user did last to many posts, `count` of them, `in <uid>` → ids of those that it marked
    as read, as 8 bytes each, and `follow <uid>` → the follow that it ended, as JSON. Lifetime: 10 minutes.
    `reader.reading.undo`.
    """
    return f"user:{{{name}}}:undo"


def list_import(name: str) -> str:
    """String, JSON: the user's last import of a list of feeds on a page: how far it is, its report. Lifetime: an hour.
    `transfer.list_imports`.
    """
    return f"user:{{{name}}}:list_import"


def mentions(name: str) -> str:
    """Hash: id of a webmention (a digest of source and target) → JSON: source, target, its state, what the source says
    of itself. Permanent, 2,000 at most. `webmention.store`.
    """
    return f"user:{{{name}}}:mentions"


def mentions_waiting(name: str) -> str:
    """Sorted set: id of a webmention whose source is to be looked at, by the Unix time for that. Permanent, 200 at
    most. `webmention.store`.
    """
    return f"user:{{{name}}}:mentions:waiting"


def mentions_by_time(name: str) -> str:
    """Sorted set: id of every webmention by Unix time of its last change. Permanent, 2,000 at most.
    `webmention.store`.
    """
    return f"user:{{{name}}}:mentions:by-time"


# --- output feeds ------------------------------------------------------------------------------------------------


def outputs(name: str) -> str:
    """Set: names of the user's output feeds, those that backend.json has removed included. Lifetime: permanent.
    `outputs.store`.
    """
    return f"user:{{{name}}}:outputs"


def output_addresses(name: str) -> str:
    """Hash: SHA-256 of the secret in the address of an output feed → the feed's name, or '' where it was revoked.
    Lifetime: permanent, 1,000 at most. `outputs.store`.
    """
    return f"user:{{{name}}}:output-addresses"


def output(name: str, feed: str) -> str:
    """Hash, an output feed: `id` (UUID), `secret` (in its address), its settings (`title`, `channel`, `search`,
    `filters` as JSON, `max_impressions`, `max_age`, `public`), `created`, `changed` (its settings), `modified` (what
    it shows), `removed` (from backend.json; Unix times), `source` (when its channel was made), `editions` (counter of
    publications); `place`, up to which it has taken in what came to its user, and `taken_from`, its source then.
    Lifetime: permanent. `outputs.store`.
    """
    return f"user:{{{name}}}:output:{feed}"


def output_published(name: str, feed: str) -> str:
    """Sorted set: item id by Unix time of publication. Lifetime: permanent. `outputs.store`."""
    return f"user:{{{name}}}:output:{feed}:published"


def output_imported(name: str, feed: str) -> str:
    """Sorted set: id of an item that was shown as often as it may be, by the time of the last impression. Lifetime:
    permanent. `outputs.store`.
    """
    return f"user:{{{name}}}:output:{feed}:imported"


def output_edited(name: str, feed: str) -> str:
    """Sorted set: id of every item that was ever put in, those that were removed too, by the time at which it was
    published or removed last. Lifetime: permanent, trimmed. `outputs.store`.
    """
    return f"user:{{{name}}}:output:{feed}:edited"


def output_impressions(name: str, feed: str) -> str:
    """Hash: item id → how often it was shown since it was published, and the times of the last hundred. Lifetime:
    permanent. `outputs.store`.
    """
    return f"user:{{{name}}}:output:{feed}:impressions"


def output_editions(name: str, feed: str) -> str:
    """Hash: item id → number of its publication, and the post's `hash` at that time. Permanent. `outputs.store`."""
    return f"user:{{{name}}}:output:{feed}:editions"


def output_held(name: str, feed: str) -> str:
    """Hash: a reply that is being sent → Unix time until which it counts, and `<item id>:<edition>` of what it shows.
    Lifetime: ten minutes after the last one began. `outputs.store`.
    """
    return f"user:{{{name}}}:output:{feed}:held"


def output_offered(name: str, feed: str) -> str:
    """Set: item ids that the channel or search brought in; picks make room of them. Permanent. `outputs.store`."""
    return f"user:{{{name}}}:output:{feed}:offered"


OUTPUT_KEYS: tuple[Callable[[str, str], str], ...] = (
    output,
    output_published,
    output_imported,
    output_edited,
    output_impressions,
    output_editions,
    output_held,
    output_offered,
)
"""All keys that belong to one output feed, for its deletion, in the order in which scripts are given them."""

# --- what is posted here -----------------------------------------------------------------------------------------


def sources(name: str) -> str:
    """Hash: id of a source → JSON: `name`, `seed` (secret, of which addresses of its posts are made), `created`,
    `changed` (Unix time), and `app` of one that an app was given. Lifetime: permanent. `micropub.sources`.
    """
    return f"user:{{{name}}}:sources"


def posted_lately(name: str, digest: str) -> str:
    """String: the token in the address of a post, by SHA-256 of its source and of what was sent, by which a retry is
    known. Lifetime: ten minutes. `micropub.posting`.
    """
    return f"user:{{{name}}}:posted:{digest}"


def deleted_post(name: str, digest: str) -> str:
    """String: JSON of a post that its source has deleted and may restore, or `restored <token>` where it has, by
    SHA-256 of source and token; a user has 200. Lifetime: 30 days. `micropub.posting`.
    """
    return f"user:{{{name}}}:deleted:{digest}"


def deleted_posts(name: str) -> str:
    """Sorted set: the last parts of the user's `deleted_post` keys, by the Unix time at which each was written last.
    Lifetime: 30 days after the last. `micropub.posting`.
    """
    return f"user:{{{name}}}:deleted"


def media(name: str) -> str:
    """Set: tokens in the addresses of the files that the user's sources have sent. Lifetime: permanent.
    `micropub.media`.
    """
    return f"user:{{{name}}}:media"


def medium(name: str, token: str) -> str:
    """Hash, a file that a source has sent: `data`, `size` (bytes that it counts), `type`, `digest` (SHA-256), by
    `post <feed> <guid>` the posts that show it, and `unused`, the Unix time since which none of them is there.
    Lifetime: permanent, until its user deletes it, or it was unused for 31 days. `micropub.media`.
    """
    return f"user:{{{name}}}:medium:{token}"


CHANNEL_KEYS: tuple[Callable[[str, str], str], ...] = (
    channel,
    channel_feeds,
    posts,
    unread,
    read,
    hidden,
    hidden_read,
    gone,
    muted,
    blocked,
)
"""All keys that belong to one channel, for its deletion."""

USER_KEYS: tuple[Callable[[str], str], ...] = (
    *(arrivals, arrivals_again, arrivals_more, behind, former_feeds, hub_of_user, imported, list_import, live_events),
    *(mentions, mentions_waiting, mentions_by_time),
    *(answered, deleted_posts, device_states, devices_told, media, outputs, output_addresses, posting, sources, tokens),
    *(undo, user),
)
"""The keys that belong to a user beside those of channels, files and tokens, for the user's deletion."""

ENDING: tuple[Callable[[str, str], str], ...] = (deleted_post, posted_lately)
"""Keys of a user that end by themselves, within 30 days."""


def pattern(key: Callable[[str, str], str], name: str) -> str:
    """The key of a channel or output feed with `*` as its name, for scripts that walk all of a user."""
    return key(name, "*")
