"""The first minutes: what an account is offered that follows nothing yet."""
