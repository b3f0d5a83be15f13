"""Whether everything in Redis is as the design says, on a store that lives; and mending what isn't.

`look` examines all invariants once, in batches and without a script that walks anything long. What it finds on a store
that is being written to may be a step that is just under way: a finding counts when it is found again and again, which
`services.checking` sees to. Every finding carries its remedy as data; `repair.apply` carries remedies out.

One module per part: `census` (every key: names, types, lifetimes, items), `contents` (members that nobody of ours has
written), `people` (users, channels, tokens, rules), `channels` (the sets of each channel), `feeds` (records, guid maps,
indexes, followers), `schedule`, `idcounters`.
"""
