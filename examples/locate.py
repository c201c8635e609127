"""Where is the transmitter? Simulate recordings of ten receivers, train the small network, and judge it beside weighted
least squares and the posterior that knows how the recordings came about.

Ends within a minute on two cores, and draws a map of some recordings, the errors, and the training.
"""

from pathlib import Path

from brimful import locate


def main(folder: str | Path = "locate-run", recordings: int = 12_000, epochs: int = 12) -> locate.Comparison:
    scenario = locate.Scenario()
    seen = locate.Dataset("seen", locate.generate(recordings, scenario, seed=0), scenario, 0)
    others = locate.Dataset("others", locate.generate(400, scenario, seed=1), scenario, 1)
    result = locate.train(
        seen, network="small", epochs=epochs, lr=3e-3, warmup_epochs=1, dropout_rate=0.0, device="cpu", out=folder
    )
    held_out, comparison = locate.evaluate(result, others, device="cpu")
    print(result)
    print(comparison)
    print(f"RMSE is {comparison.ratio('rmse_m'):.2f} times the posterior's, p68 {comparison.ratio('p68_m'):.2f} times")
    print(result.predict(others).slice(0, 3).to_pylist())
    for path in locate.report(result.with_held_out(held_out), comparison).save(folder):
        print(path)
    return comparison


if __name__ == "__main__":
    main()
