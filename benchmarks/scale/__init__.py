"""The server's costs per feed, post, subscription and reader, and a prediction for any number of users:

    python -m benchmarks.scale [--users 10000] [--quick] [--json FILE] [--update PAGE…]

`plan` generates a population, `filling` writes it into a real Redis like the product (`sample` verifies that), `work`
measures operations on it, `polls` the cost of polling. The costs of a small population (`observing`) are the input of
`model`, which is pure and predicts the needs of a large one; the same measurements on a large population check the
prediction. `report` makes the tables, `docs/explanation/scale.md` explains them.
"""
