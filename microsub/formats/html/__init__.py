"""HTML: sanitising, nesting limits, and conversion to text."""

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
