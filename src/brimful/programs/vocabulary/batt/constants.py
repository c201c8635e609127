"""The constants that a batt names: numbers, colors, ranks, kinds and vectors."""

_DIGITS = ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE", "TEN")
_COLORS = ("BLACK", "BLUE", "RED", "GREEN", "YELLOW", "GRAY", "MAGENTA", "ORANGE", "CYAN", "BURGUNDY")

CONSTANTS: dict[str, bool | int | tuple[int, int]] = {
    "F": False,
    "T": True,
    **{name: number for number, name in enumerate(_DIGITS)},
    **{f"NEG_{name}": -number for number, name in enumerate(_DIGITS) if number},
    "HUNDRED": 100,
    "THOUSAND": 1000,
    **{name: number for number, name in enumerate(_COLORS)},
    # Ranks from the front and from the back, kinds of objects and of corners, mirrors and turns, factors.
    **{f"F{number}": number for number in range(10)},
    **{f"L{number}": -number for number in range(1, 11)},
    **{f"R{number}": number for number in range(10)},
    **{f"A{number}": number for number in range(10)},
    "SM2": 2,
    "SM3": 3,
    "SD2": -2,
    "SD3": -3,
    "DOWN": (1, 0),
    "RIGHT": (0, 1),
    "UP": (-1, 0),
    "LEFT": (0, -1),
    "ORIGIN": (0, 0),
    "UNITY": (1, 1),
    "NEG_UNITY": (-1, -1),
    "UP_RIGHT": (-1, 1),
    "DOWN_LEFT": (1, -1),
    "ZERO_BY_TWO": (0, 2),
    "TWO_BY_ZERO": (2, 0),
    "TWO_BY_TWO": (2, 2),
    "THREE_BY_THREE": (3, 3),
}
