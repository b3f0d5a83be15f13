"""The server's costs, measured against static bytes through the same stack, in one command:

    python -m benchmarks [--quick] [--items 1000,100000,1000000] [--json FILE]

`world` starts and fills a real server, `cases` defines requests and expected replies, `load` sends requests as fast as
8 connections can, `report` turns rounds into a table. `docs/explanation/performance.md` explains the figures.
"""
