"""Factor many covariance matrices. Those that float32 cannot hold are done in float64; a bad one is flagged, alone."""

import torch

import brimful


def main(count: int = 20_000) -> brimful.MapResult:
    torch.manual_seed(0)
    x = torch.rand(count, 20).sort(dim=1).values
    lengthscale = torch.logspace(-2, 0, count)[:, None]  # the longer, the nearer to singular
    x[123, 4] = float("nan")

    def factor(batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x_TN, scale_T1 = batch
        difference_TNN = (x_TN[:, :, None] - x_TN[:, None, :]) / scale_T1[:, :, None]
        K_TNN = torch.exp(-0.5 * difference_TNN.square())
        return torch.linalg.cholesky(K_TNN + 2e-7 * torch.eye(20, dtype=K_TNN.dtype, device=K_TNN.device))

    result = brimful.map(factor, (x, lengthscale), budget="500MB", fallback=torch.float64)
    rescued = int((result.status == brimful.Status.RESCUED).sum())
    print(result)
    print(f"{rescued:,} saved in float64; flagged: {[item for item in range(count) if not result.ok[item]]}")
    return result


if __name__ == "__main__":
    main()
