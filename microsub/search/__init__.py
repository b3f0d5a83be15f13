"""Full-text search in posts: one index for all users, a replica on each machine; `finding` is where requests begin."""
