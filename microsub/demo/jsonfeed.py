"""The demo's JSON Feed (https://www.jsonfeed.org/version/1.1/). Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from microsub.demo.cast import Blog
from microsub.demo.markup import avatar_path, body_html, body_text, feed_path, home_path, photo_path
from microsub.demo.posts import Post


def jsonfeed(blog: Blog, posts: Sequence[Post], base: str) -> bytes:
    """JSON Feed 1.1, with a picture and an attachment where a post has one."""
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": blog.title,
        "home_page_url": base + home_path(blog),
        "feed_url": base + feed_path(blog),
        "description": blog.about,
        "icon": base + avatar_path(blog),
        "language": blog.language,
        "authors": [{"name": blog.author, "url": base + home_path(blog), "avatar": base + avatar_path(blog)}],
        "items": [_item(post, base) for post in posts],
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _item(post: Post, base: str) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": base + post.path,
        "url": base + post.path,
        "title": post.title,
        "content_html": body_html(post, base),
        "content_text": body_text(post),
        "date_published": post.published.isoformat(),
        "tags": list(post.tags),
    }
    if post.has_photo:
        item["image"] = base + photo_path(post)
        item["attachments"] = [{"url": base + photo_path(post), "mime_type": "image/svg+xml"}]
    return item
