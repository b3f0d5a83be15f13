"""Requirements on every request, whatever its action: its form, its token, its reply."""
