"""Stands in for the vocabulary of batts."""

from ..language.operation import Vocabulary

BATT = Vocabulary("batt", {}, {}, True)
