"""Webmentions of users' pages (https://www.w3.org/TR/webmention/): received, verified, shown in `notifications`."""
