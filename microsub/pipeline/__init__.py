"""From a due feed to timelines: one module per stage; decisions in pure functions, acts in thin ones."""
