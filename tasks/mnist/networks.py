r"""The layers of the conditional variational autoencoder and of the classifier."""

__all__ = ["ClassifierNetwork", "CvaeNetwork"]

import torch
from torch import Tensor, nn
from torch.nn import functional


class CvaeNetwork(nn.Module):
    r"""A convolutional encoder and decoder of images with one channel, both of which know the label.

    Arguments:
        height: The pixels of an image, divisible by 4.
        width: Likewise.
        classes: The number of labels.
        code: The dimensions of the code.
        embedding: The dimensions of the label's embedding in the decoder.
        learned: Whether the variance of pixels is a parameter.
    """

    def __init__(self, height: int, width: int, classes: int, code: int, embedding: int, learned: bool) -> None:
        super().__init__()
        self.size = height, width
        inner = 64 * (height // 4) * (width // 4)
        self.label_map = nn.Embedding(classes, height * width)
        self.label_vector = nn.Embedding(classes, embedding)
        self.encoder = nn.Sequential(
            nn.Conv2d(2, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(inner, 2 * code),
        )
        self.decoder = nn.Sequential(
            nn.Linear(code + embedding, inner),
            nn.ReLU(),
            nn.Unflatten(1, (64, height // 4, width // 4)),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
        )
        self.log_variance = nn.Parameter(torch.tensor(-3.0)) if learned else None

    def encode(self, y: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        r"""Returns mean and log-variance of the codes of images $(B, 1, H, W)$, each with shape $(B, code)$."""
        known = self.label_map(labels).reshape(-1, 1, *self.size)
        mean, log_variance = self.encoder(torch.cat([y, known], dim=1)).float().chunk(2, dim=1)
        return mean, log_variance

    def decode(self, code: Tensor, labels: Tensor) -> Tensor:
        r"""Returns the logits of the pixels' means, with shape $(B, 1, H, W)$."""
        return self.decoder(torch.cat([code, self.label_vector(labels)], dim=1)).float()

    def pixels(self, code: Tensor, labels: Tensor) -> Tensor:
        r"""Returns the pixels' means, with shape $(B, H, W)$."""
        return functional.sigmoid(self.decode(code, labels))[:, 0]


class ClassifierNetwork(nn.Module):
    r"""Two convolutions and two linear layers, between which are the features.

    Arguments:
        height: The pixels of an image, divisible by 4.
        width: Likewise.
        classes: The number of labels.
        features: The number of features.
    """

    def __init__(self, height: int, width: int, classes: int, features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * (height // 4) * (width // 4), features),
        )
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(features, classes))

    def forward(self, y: Tensor) -> Tensor:
        r"""Returns the logits of the labels of images $(B, 1, H, W)$."""
        return self.head(self.body(y)).float()
