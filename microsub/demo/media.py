"""Pictures and sounds, drawn from a number: an SVG landscape, a small PNG avatar, a one-second WAV. Pure.

SVG 1.1, PNG (RFC 2083) and RIFF WAVE are simple enough to be written by hand, so the demo ships no binary files.
"""

from __future__ import annotations

import math
import random
import struct
import zlib

from microsub.demo.cast import Blog

AVATAR_PIXELS = 32
SOUND_RATE = 8_000
SOUND_SECONDS = 1


def landscape(blog: Blog, number: int) -> bytes:
    """An SVG of hills under a sky in the blog's colours, different for each number."""
    chance = random.Random(f"{blog.slug}/{number}")  # noqa: S311 - a drawing, no secret
    dark, light = blog.colours
    hills = []
    for layer in range(3):
        points = " ".join(f"{x},{150 + layer * 35 - chance.randint(0, 60)}" for x in range(0, 481, 60))
        hills.append(f'<polygon points="0,270 {points} 480,270" fill="{dark}" opacity="{0.35 + 0.25 * layer:.2f}"/>')
    x, y, radius = chance.randint(60, 420), chance.randint(40, 110), chance.randint(16, 34)
    sun = f'<circle cx="{x}" cy="{y}" r="{radius}" fill="#fff" opacity="0.8"/>'
    text = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="480" height="270" viewBox="0 0 480 270">'
        f'<rect width="480" height="270" fill="{light}"/>{sun}{"".join(hills)}</svg>\n'
    )
    return text.encode()


def avatar(blog: Blog) -> bytes:
    """A PNG of a mirrored block pattern, 32 by 32 pixels, in the blog's two colours."""
    chance = random.Random(blog.slug)  # noqa: S311 - a drawing, no secret
    half = [[chance.random() < 0.5 for _ in range(4)] for _ in range(8)]
    grid = [row + row[::-1] for row in half]
    colours = [bytes.fromhex(colour[1:]) for colour in blog.colours]
    block = AVATAR_PIXELS // 8
    rows = []
    for y in range(AVATAR_PIXELS):
        row = grid[y // block]
        rows.append(b"\0" + b"".join(colours[row[x // block]] for x in range(AVATAR_PIXELS)))
    header = struct.pack(">IIBBBBB", AVATAR_PIXELS, AVATAR_PIXELS, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(b"".join(rows), 9)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def foghorn(number: int) -> bytes:
    """A WAV of one second (8 kHz, mono, 8 bit): two low tones that beat against each other."""
    pitch = 90 + number % 7 * 12
    frames = bytes(
        int(
            128
            + 50 * math.sin(2 * math.pi * pitch * i / SOUND_RATE)
            + 40 * math.sin(2 * math.pi * (pitch + 3) * i / SOUND_RATE)
        )
        for i in range(SOUND_RATE * SOUND_SECONDS)
    )
    form = struct.pack("<HHIIHH", 1, 1, SOUND_RATE, SOUND_RATE, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(frames)) + frames
    return b"RIFF" + struct.pack("<I", len(body)) + body


SOUND_BYTES = 44 + SOUND_RATE * SOUND_SECONDS
"""Length of every `foghorn`, for the enclosures that announce it."""
