"""The WebSub hub: subscribers of a topic of this server are sent its document when it changes.

Spec: https://www.w3.org/TR/websub/. `topics` are output feeds, channels and stored feeds; `store` has subscriptions and
what is to be done; `distribution` does it: verifies, delivers, denies; `api` is `/hub`, and `/topics` for the documents
of channels and stored feeds, and for users the action that gives a channel's topic an address.
"""
