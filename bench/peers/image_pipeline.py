#!/usr/bin/env python3
"""Times torchvision's input pipeline on one thread, on the files of image_pipeline_bench --folder DIR.

    bench/peers/image_pipeline.py DIR [--side 224] [--passes 5]

Seconds are the processor's, in the fastest pass. Three ways: the usual training transforms on Pillow images; the shifts,
zooms and flips that kolo does; and torchvision's own JPEG decoder with the usual transforms on tensors. Without torchvision
or Pillow (Debian: python3-torchvision, python3-pil) it says so and leaves.
"""
import argparse
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
try:
    import torch
    import torchvision
    import torchvision.transforms as T
    from PIL import Image
except ImportError as error:
    sys.exit(f"image_pipeline.py: {error}; Debian's packages are python3-torchvision and python3-pil")


def pipelines(side):
    tail = [T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    usual = T.Compose([T.RandomResizedCrop(side)] + tail)
    affine = T.RandomAffine(0, translate=(0.33, 0.33), scale=(0.5, 1.5), interpolation=T.InterpolationMode.BILINEAR)
    same = T.Compose([T.Resize((side, side)), affine] + tail)
    tensors = T.Compose([T.RandomResizedCrop(side), T.RandomHorizontalFlip(), T.ConvertImageDtype(torch.float32), tail[-1]])
    read = torchvision.io.read_file
    return {
        "decode (Pillow)": lambda path: Image.open(path).convert("RGB"),
        "usual: crop, resize, flip": lambda path: usual(Image.open(path).convert("RGB")),
        "same: resize, shift, zoom, flip": lambda path: same(Image.open(path).convert("RGB")),
        "usual, decoded to tensors": lambda path: tensors(torchvision.io.decode_jpeg(read(path))),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = os.path.join(options.folder, "x")
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    print(f"torchvision {torchvision.__version__}, {len(paths)} images, to {options.side} x {options.side}, one core")
    for name, pipeline in pipelines(options.side).items():
        fastest = float("inf")
        for _ in range(options.passes + 1):
            begin = time.process_time()
            for path in paths:
                pipeline(path)
            fastest = min(fastest, (time.process_time() - begin) / len(paths))
        print(f"{name:36} {1e3 * fastest:7.3f} ms  {1 / fastest:7.1f} images/s")


main()
