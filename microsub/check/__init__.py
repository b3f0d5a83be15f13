"""Whether a store in use is as the design says, and how to repair what isn't.

`look` reads everything once, in batches, without a script that walks anything long; `invariants` has the seven
invariants, one function each, over what was read. What is found on a store that is being written to may be a step
under way: a finding counts when it is found again and again, which `check.command` sees to. Every finding carries
its remedy as data; `repair.apply` carries remedies out.

What is checked is what our own processes can leave when they die, and a Redis that lost its last second or was restored
from backups of different moments. Keys that somebody edits by hand are not judged.
"""
