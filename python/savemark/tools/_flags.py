"""Short options of a command line, as getopt reads them."""

from __future__ import annotations

import re
import shlex


def short_options(command: str, with_value: str) -> dict[str, str]:
    """Return the options by letter: `-b 16m`, `-b=16m`, `-b16m`, `-eCF` as `e`, `C`, `F`.

    `with_value` are the letters that take one. Words that are no short option are left out.
    """
    try:
        words = shlex.split(command)[1:]
    except ValueError:  # a quote that does not end
        words = command.split()[1:]
    options: dict[str, str] = {}
    while words:
        word = words.pop(0)
        letters = word[1:] if re.match(r"-[A-Za-z]", word) else ""
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in with_value:
                options[letter] = letters.lstrip("=") or (words.pop(0) if words else "")
                letters = ""
            else:
                options[letter] = ""
    return options
