"""Requirements on every request, whatever its action: how it arrives, who sends it, how the reply looks."""
