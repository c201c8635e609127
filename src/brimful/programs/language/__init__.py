"""The language of programs: types, operations, the front end, and the graph that programs become."""
