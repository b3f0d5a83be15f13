"""A conformance suite for Microsub servers: black-box checks against any endpoint, over HTTP only.

Read in this order: `requirement` (what a requirement is), `world` (what a check can do), one module of `checks`,
`runner`, `report`. The spec is https://indieweb.org/Microsub-spec. Where it is silent, requirements come from what
reader apps send and accept, and from this project's design. Each requirement names its source.
"""
