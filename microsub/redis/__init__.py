"""The connection to Redis: clients, cluster, scripts, keys, leases, migrations."""
