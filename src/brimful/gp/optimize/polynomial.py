"""A polynomial of the sixth degree through seven points, for tensors of torch and, compiled from here, of Triton.

A polynomial is the tuple of its coefficients, the constant first.
"""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false


def through(a, b, c, d, e, f, g):
    """The polynomial through seven points a step apart, around the middle one: its even part, then its odd part."""
    near, mid, far = 0.5 * (e + c) - d, 0.5 * (f + b) - d, 0.5 * (g + a) - d
    sixth = (far - 6 * mid + 15 * near) / 360
    fourth = (mid - 4 * near) / 12 - 5 * sixth
    second = near - fourth - sixth
    near, mid, far = 0.5 * (e - c), 0.5 * (f - b), 0.5 * (g - a)
    fifth = (far - 4 * mid + 5 * near) / 120
    third = (mid - 2 * near) / 6 - 5 * fifth
    return d, near - third - fifth, second, third, fourth, fifth, sixth


def value(k, s):
    return k[0] + s * (k[1] + s * (k[2] + s * (k[3] + s * (k[4] + s * (k[5] + s * k[6])))))


def derivative(k, s):
    return k[1] + s * (2 * k[2] + s * (3 * k[3] + s * (4 * k[4] + s * (5 * k[5] + s * 6 * k[6]))))


def curvature(k, s):
    return 2 * k[2] + s * (6 * k[3] + s * (12 * k[4] + s * (20 * k[5] + s * 30 * k[6])))
