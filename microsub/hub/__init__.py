"""The WebSub hub: subscribers of a topic of this server get its document when it changes.

Spec: https://www.w3.org/TR/websub/. `topics` are output feeds, channels and stored feeds. `store` has subscriptions and
planned work. `worker` does the work: verifies, delivers, denies. `api` is `/hub`, `/topics` for the documents of
channels and stored feeds, and the users' action that gives a channel's topic an address.
"""
