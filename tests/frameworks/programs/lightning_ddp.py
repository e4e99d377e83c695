"""A Lightning Trainer with the strategy ``ddp``, as its documentation shows it, on a tiny model."""

import argparse

import lightning as L  # noqa: N812 - as everybody imports it
import torch
from torch.utils.data import DataLoader, TensorDataset


class Regression(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.layers(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--out", default=None)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, 8), torch.randn(4096, 1))
    trainer = L.Trainer(
        accelerator="cpu",
        devices=arguments.devices,
        strategy="ddp",
        max_steps=arguments.steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=arguments.out,
    )
    trainer.fit(Regression(), DataLoader(data, batch_size=16))


if __name__ == "__main__":
    main()
