"""What the server costs per feed, post, subscription and reader, and what that comes to for any number of users:

    python -m benchmarks.scale [--users 10000] [--quick] [--json FILE] [--update PAGE…]

`plan` invents a population, `filling` writes it into a real Redis as the product would (`sample` proves that), `work`
measures what is done with it, `polls` what polling costs. What a small population costs (`observing`) goes into the
`model`, which is pure and says what a large one will take; the same measurements on a large one show how far that is
right. `report` makes tables of it all, `docs/explanation/scale.md` explains them.
"""
