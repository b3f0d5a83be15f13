"""Posts that hubs deliver (WebSub, https://www.w3.org/TR/websub/): subscriptions, callbacks, deliveries."""
