"""How many hosts a worker asks at the same time."""

from __future__ import annotations

import resource

from microsub.wiring.worker import hosts_at_once


def test_a_worker_asks_no_more_hosts_than_it_has_file_descriptors_for() -> None:
    """Four for each host, and some for everything else; what the admin wants where there are enough."""
    assert hosts_at_once(200, 1024) == 200
    assert hosts_at_once(1500, 1024) == 240
    assert hosts_at_once(200, 200) == 34
    assert hosts_at_once(200, 256) == 48
    assert hosts_at_once(200, 16) == 1
    assert hosts_at_once(10_000, resource.RLIM_INFINITY) == 10_000
    assert hosts_at_once(200, 1 << 20) == 200
