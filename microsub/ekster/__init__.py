"""The move from the older Go server (https://github.com/pstuifzand/ekster)."""
