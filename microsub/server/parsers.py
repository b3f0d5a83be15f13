"""The tasks that parser processes carry out."""

from microsub.articles.extraction import ARTICLE_IN
from microsub.articles.icons import ICONS_ON
from microsub.discovery.queries import PROFILE_IN
from microsub.formats.chapters import CHAPTERS_IN
from microsub.formats.feed_links import BETTER_FEEDS, DISCOVER, FORWARDED, NAMED_IN_HEAD
from microsub.formats.hfeed import POSTED_ENTRY
from microsub.formats.parse import PARSE
from microsub.formats.references import LOOKED_UP
from microsub.identity.protocol.clients import READ_CLIENT
from microsub.identity.protocol.links import EXAMINED, PROFILE_LINKS
from microsub.parsing.task import AnyTask
from microsub.posts.entries import POSTS_IN
from microsub.transfer.ekster import OLD_POST
from microsub.transfer.foreign_posts import EXPORTED_POSTS, POSTS_OF_READER
from microsub.transfer.outlines import READ_LIST
from microsub.webmention.source import MENTION_IN

TASKS: tuple[AnyTask, ...] = (
    *(PARSE, POSTS_IN, DISCOVER, BETTER_FEEDS, NAMED_IN_HEAD, FORWARDED, PROFILE_IN),
    *(LOOKED_UP, MENTION_IN, POSTED_ENTRY, ARTICLE_IN, ICONS_ON, CHAPTERS_IN),
    *(PROFILE_LINKS, READ_CLIENT, EXAMINED),
    *(READ_LIST, EXPORTED_POSTS, POSTS_OF_READER, OLD_POST),
)
