"""IndieAuth as text and values: who somebody is, which app asks, what servers say (https://indieauth.spec.indieweb.org/).

Pure. What is fetched for it is `services.identity`'s affair.
"""
