"""What happens around every page: routes, forms, sessions, templates."""
