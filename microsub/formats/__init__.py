"""Bytes to jf2 and back. Everything here is pure: no network, no clock, no Redis.

    parse      any feed document -> jf2.Feed          identity   which post is which
    wire       jf2.Entry -> the JSON that clients read   discovery  which feeds a page names

One module per format (`syndication`, `jsonfeed`, `html`) hands raw values to `normalise`, which cleans all of them the
same way.
"""
