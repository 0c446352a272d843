"""The networks of src/nn/models, written again for PyTorch: what kolo's training steps are measured against.

Whether both sides have as many parameters is checked by bench/gpu_figures.
"""
import torch
from torch import nn

slow_norm = dict(eps=1e-3, momentum=0.01)  # of the NERSC tutorial's networks, in PyTorch's sense
plain_norm = dict(eps=1e-5, momentum=0.1)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, outputs, stride):
        super().__init__()
        projects = stride != 1 or inputs != outputs
        norm = slow_norm if projects else plain_norm
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride), nn.BatchNorm2d(width, **norm), nn.ReLU(True),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width, **norm), nn.ReLU(True),
            nn.Conv2d(width, outputs, 1), nn.BatchNorm2d(outputs, **norm))
        self.shortcut = nn.Identity()
        if projects:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs, **norm))

    def forward(self, x):
        return torch.relu_(self.residual(x).add_(self.shortcut(x)))


def resnet(stem, blocks, expansion, first_stride, classes):
    layers, channels = list(stem), 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            stride = 1 if block > 0 else 2 if stage > 0 else first_stride
            layers.append(Bottleneck(channels, width, expansion * width, stride))
            channels = expansion * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet_small():
    stem = nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64, **slow_norm), nn.ReLU(True)
    return resnet(stem, (2, 2, 2, 2), 1, 2, 10)


def resnet50():
    stem = nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64, **slow_norm), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)
    return resnet(stem, (3, 4, 6, 3), 4, 1, 1000)


def cnn():
    layers = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(True), nn.Linear(128, 10))


def mnist_net():
    return nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(True),
        nn.Conv2d(10, 20, 5), nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU(True),
        nn.Flatten(), nn.Linear(320, 50), nn.ReLU(True), nn.Dropout(), nn.Linear(50, 10))


def mnist_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(True), nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(True), nn.Dropout(.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(True), nn.Dropout(), nn.Linear(128, 10))


class UNet3d(nn.Module):
    """The tutorial's network: as many levels of 4x4x4 convolutions of stride 2, and back."""

    def __init__(self, inputs=4, outputs=5, levels=6, channels=64):
        super().__init__()
        widths = [channels << min(level, 3) for level in range(levels)]
        made = (inputs, *widths)
        self.down = nn.ModuleList(nn.Conv3d(made[i], made[i + 1], 4, 2, 1) for i in range(levels))
        back = (outputs, *widths)
        self.up = nn.ModuleList(
            nn.ConvTranspose3d(back[level] * (1 if level == levels else 2), back[level - 1], 4, 2, 1)
            for level in range(levels, 0, -1))

    def forward(self, x):
        shared = []
        for convolution in self.down:
            x = nn.functional.leaky_relu(convolution(x), inplace=True)
            shared.append(x)
        for index, convolution in enumerate(self.up):
            level = len(shared) - index
            if index > 0:
                x = torch.cat([torch.relu_(x), shared[level - 1]], 1)
            x = convolution(x)
        return torch.tanh(x)


networks = {"resnet_small": resnet_small, "resnet50": resnet50, "cnn": cnn, "mnist_net": mnist_net,
            "mnist_cnn": mnist_cnn, "unet3d": UNet3d}
sample_shapes = {"resnet_small": (3, 32, 32), "resnet50": (3, 224, 224), "cnn": (3, 32, 32), "mnist_net": (1, 28, 28),
                 "mnist_cnn": (1, 28, 28), "unet3d": (4, 64, 64, 64)}
makes_fields = {"unet3d"}
field_channels = 5  # of a U-Net's output
classes = {"resnet50": 1000}  # others have ten


def batch_of(model, samples, shape, memory_format, device="cpu"):
    """Inputs and targets, random; from LibTorch's generator, which the caller seeds."""
    inputs = torch.randn(samples, *shape).to(device=device, memory_format=memory_format)
    if model in makes_fields:
        targets = torch.randn(samples, field_channels, *shape[1:]).to(device=device, memory_format=memory_format)
    else:
        targets = torch.randint(classes.get(model, 10), (samples,)).to(device)
    return inputs, targets


def loss_of(model):
    return nn.functional.l1_loss if model in makes_fields else nn.functional.cross_entropy


def memory_format(layout, dimensions):
    """`dimensions`: of a sample."""
    if layout == "contiguous":
        return torch.contiguous_format
    return torch.channels_last_3d if dimensions == 4 else torch.channels_last
