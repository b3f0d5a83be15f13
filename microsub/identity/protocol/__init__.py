"""IndieAuth as text and values (https://indieauth.spec.indieweb.org/). Pure."""
