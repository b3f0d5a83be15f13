"""A conformance suite for servers of Microsub or of the Google Reader API: black-box checks over HTTP only.

Read in this order: `requirement` (what a requirement is), `world` (what a check can do), one module of `checks`,
`runner`, `report`. The spec is https://indieweb.org/Microsub-spec. Where it is silent, requirements come from what
reader apps send and accept, and from this project's design. Each requirement names its source. `native` is the same
for the Google Reader API.
"""
