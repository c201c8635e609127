"""What the operations of a vocabulary are made of: plain values told from others, evaluation, components."""
