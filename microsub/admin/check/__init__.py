"""Check that a store in use agrees with its design, and repair it.

`look` reads everything once, in batches, without a script that runs long; `invariants` checks the data that it read,
with one function for each invariant. On a store that is being written to, a finding may be a change in progress: a
finding counts only if it is found repeatedly (`check.command`). Every finding has its remedy as data; `command.apply`
carries out remedies.

The check covers damage from our own processes when they die, and from a Redis that lost its last second or was restored
from backups of different moments. Keys edited by hand are not covered.
"""
