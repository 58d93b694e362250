"""Result files as no tool ever wrote them: samples with something taken out, put in or changed."""

from hypothesis import strategies as st

# What a number in a file may turn into; and what may stand where nothing should.
NUMBERS = ["", "-1", "0", "-0.0", "nan", "NaN", "inf", "-Infinity", "1e308", "1e999", "1e-320"]
NUMBERS += [
    "9" * 25,
    "9" * 400,
    "9" * 5000,
    "1e9999999",
    "0x10",
    "１２",
    "1,5",
    "--",
    "4k",
    "null",
    "true",
    "[]",
    "{}",
]
JUNK = ["\n", "\r\n", "\0", ",", "\t", "{", "}", "[", '"', "=", ":", "\ufeff", "é", " " * 40]
DIGITS = b"0123456789"


@st.composite
def mutated(draw, samples):
    """The bytes of one of the samples after some changes."""
    data = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 6))):
        change = draw(st.sampled_from([cut, doubled, number, junk, lines, tail, byte]))
        data = change(draw, data)
    return data


def place(draw, data):
    return draw(st.integers(0, max(len(data) - 1, 0)))


def cut(draw, data):
    start = place(draw, data)
    return data[:start] + data[start + draw(st.integers(1, 80)) :]


def tail(draw, data):
    return data[: place(draw, data)]


def doubled(draw, data):
    start = place(draw, data)
    part = data[start : start + draw(st.integers(1, 400))]
    return data[:start] + part * draw(st.integers(2, 4)) + data[start + len(part) :]


def number(draw, data):
    """Another number in the place of one."""
    start = place(draw, data)
    found = next((n for n in range(start, len(data)) if data[n] in DIGITS), None)
    if found is None:
        return data
    end = found
    while end < len(data) and data[end] in DIGITS + b".":
        end += 1
    return data[:found] + draw(st.sampled_from(NUMBERS)).encode() + data[end:]


def junk(draw, data):
    start = place(draw, data)
    text = draw(st.one_of(st.sampled_from(JUNK), st.text(max_size=12)))
    return data[:start] + text.encode(errors="replace") + data[start:]


def lines(draw, data):
    """Two lines in each other's place."""
    parts = data.split(b"\n")
    one, other = (draw(st.integers(0, len(parts) - 1)) for _ in range(2))
    parts[one], parts[other] = parts[other], parts[one]
    return b"\n".join(parts)


def byte(draw, data):
    start = place(draw, data)
    return data[:start] + bytes([draw(st.integers(0, 255))]) + data[start + 1 :]
