"""Thousands of tiny networks trained side by side: the smallest whole workload, and the demonstration of `map`.

    model.py      what is computed: one network per item of a batch
    options.py    the command's options, declared once
    commands.py   the plan and the run that follow from the options
    result.py     what a run gives back
    report.py     the picture of it
    workload.py   the registration

There is no store.py: the results are `map`'s Parquet shards in the run directory, and a run is loaded by resuming it.
"""
