"""Check that a store in use agrees with its design, and repair it.

`look` reads everything once, in batches, without a script that walks anything long; `invariants` has the seven
invariants, one function each, over what was read. What is found on a store that is being written to may be a step
under way: a finding counts when it is found again and again, which `check.command` sees to. Every finding carries
its remedy as data; `repair.apply` carries remedies out.

The check covers damage from our own processes when they die, and from a Redis that lost its last second or was restored
from backups of different moments. Keys edited by hand are not covered.
"""
