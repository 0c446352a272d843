"""Networks, as the documents list their layers: what kolo writes to model.txt."""
import math
import re

from drawing.picture import BLUE, GREEN, GREY, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, PALE, ROOT, TEXT, Picture, draw_block

FOLDER = ROOT / "docs/use/tutorial"


class Layer:
    def __init__(self, name, operation, shape, parameters):
        self.name, self.operation, self.shape, self.parameters = name, operation, shape, parameters


# The layers of a page's table that has a row `name`; operations without one of their own have that of the row above.
def layers_of(page, name):
    for block in re.findall(r"^```text\n(.*?)^```", (FOLDER / page).read_text(), re.M | re.S):
        layers, last = [], ""
        for line in block.splitlines():
            cells = re.split(r" {2,}", line.strip())
            if line.startswith(" "):
                cells.insert(0, last)
            if len(cells) < 3 or not re.fullmatch(r"\d+( x \d+)*", cells[2]):
                continue
            last = cells[0]
            is_weighted = len(cells) == 5  # parameters and operations
            layers.append(Layer(last, cells[1], [int(length) for length in cells[2].split(" x ")],
                                int(cells[3].replace(" ", "")) if is_weighted else 0))
        if any(layer.name == name for layer in layers):
            return layers
    raise SystemExit(f"drawings: docs/use/tutorial/{page} lists no layer '{name}'")


# The length of a convolution's kernel, from how many weights it has beside its biases.
def kernel_of(layer, inputs, dimensions):
    outputs = layer.shape[0]
    return round(((layer.parameters - outputs) / (outputs * inputs)) ** (1 / dimensions))


def weights_of(layers):
    return f"{sum(layer.parameters for layer in layers):,}".replace(",", " ")


def draw_mnist_net():
    layers = layers_of("1-one-rank.md", "fc2")
    shown = {"conv2d": (BLUE, "5x5 convolution"), "max_pool2d": (LIGHT_BLUE, "largest of 2x2"),
             "flatten": (PALE, "in one row"), "linear": (ORANGE, "linear")}
    steps = [("clothes", [1, 28, 28], GREY)]
    steps += [(shown[layer.operation][1], layer.shape, shown[layer.operation][0]) for layer in layers if layer.operation in shown]
    picture = Picture(800, 256)
    picture.text(20, 24, f"mnist_net: a picture becomes ten numbers; {weights_of(layers)} weights", weight="bold")
    x, middle = 30, 130
    for number, (text, shape, colour) in enumerate(steps):
        width = draw_values(picture, x, middle, shape, colour)
        centre = x + width / 2
        picture.text(centre, 212, " x ".join(str(length) for length in shape), "middle")
        picture.text(centre, 230 + 16 * (number % 2), text, "middle", TEXT, 11)
        x += width
        if number + 1 < len(steps):
            picture.arrow(x + 8, middle, x + 26, middle, GREY)
        x += 34
    picture.write("mnist-net")


# Planes of values one behind the other, as many as there are (ten at most are seen), or a column of them. Returns the width.
def draw_values(picture, x, middle, shape, colour):
    if len(shape) == 1:
        height = 24 + 20 * math.log2(shape[0])
        picture.box(x + 16, middle - height / 2 + 8, 14, height * .8, colour, TEXT)
        return 46
    planes, edge = min(shape[0], 10), 12 + 2.2 * shape[-1]
    for plane in reversed(range(planes)):
        picture.box(x + 3 * plane, middle - edge / 2 - 3 * plane + 10, edge, edge, colour, "#fff")
    return edge + 3 * planes


def draw_residual_block():
    layers = layers_of("0-what-and-why.md", "stage2.block1.residual.convolution1")
    picture = Picture(760, 380)
    picture.text(20, 24, "Two blocks of the residual network: what convolutions make of the input is added to it", weight="bold")
    first = next(layer for layer in layers if layer.name.startswith("stage1"))
    given = first.shape
    for number, left in ((1, 60), (2, 440)):
        block = [layer for layer in layers if layer.name.startswith(f"stage2.block{number}.")]
        convolutions = [layer for layer in block if layer.operation == "conv2d" and ".residual." in layer.name]
        shortcut = next((layer for layer in block if layer.operation == "conv2d" and ".shortcut." in layer.name), None)
        given = draw_block_of(picture, left, convolutions, shortcut, given)
    picture.write("residual-block")


def shape_text(shape):
    return f"{shape[0]} x {shape[1]} x {shape[2]}"


# One block from its input's shape; returns that of its output.
def draw_block_of(picture, left, convolutions, shortcut, given):
    centre, y = left + 80, 66
    picture.text(centre, y, shape_text(given), "middle")
    begin, inputs = y + 10, given[0]
    for convolution in convolutions:
        picture.arrow(centre, y + 8, centre, y + 32, TEXT)
        kernel = kernel_of(convolution, inputs, 2)
        picture.box(left, y + 34, 160, 28, BLUE)
        picture.text(centre, y + 52, f"{kernel}x{kernel} convolution, norm", "middle", "#fff")
        y += 62
        if convolution is not convolutions[-1]:
            picture.text(centre + 8, y + 18, "relu", size=11)
        inputs = convolution.shape[0]
    picture.arrow(centre, y + 2, centre, y + 28)
    y += 42
    picture.add(f'<circle cx="{centre}" cy="{y}" r="13" fill="{ORANGE}"/>')
    picture.text(centre, y + 5, "+", "middle", "#fff", 16)
    # The shortcut.
    side = left + 236
    picture.line([(centre + 46, begin - 14), (side, begin - 14), (side, y), (centre + 22, y)], ORANGE, 2)
    picture.arrow(centre + 24, y, centre + 15, y, ORANGE)
    if shortcut is not None:
        picture.box(side - 60, (begin + y) / 2 - 14, 120, 28, LIGHT_ORANGE)
        kernel = kernel_of(shortcut, given[0], 2)
        picture.text(side, (begin + y) / 2 + 4, f"{kernel}x{kernel} convolution", "middle")
    else:
        picture.text(side - 8, (begin + y) / 2 + 4, "as it is", "end", ORANGE)
    picture.arrow(centre, y + 14, centre, y + 34)
    picture.text(centre + 8, y + 28, "relu", size=11)
    picture.text(centre, y + 50, shape_text(convolutions[-1].shape), "middle")
    return convolutions[-1].shape


def draw_unet():
    layers = layers_of("0-what-and-why.md", "down1")
    down = [layer for layer in layers if layer.operation == "conv3d"]
    up = [layer for layer in layers if layer.operation == "conv_transpose3d"]
    joined = {layer.name: layer.shape for layer in layers if layer.operation == "cat"}
    edge_of = lambda length: 16 + 11 * math.log2(length)
    pitch, drop, left, top = 106, 78, 20, 96
    picture = Picture(left + pitch * (2 * len(down) + 1) + 10, top + drop * len(down) + 90)
    picture.text(20, 24, f"The small U-Net: {len(down)} levels, {weights_of(layers)} weights", weight="bold")
    picture.text(20, 42, "Numbers are channels and cells, channels x depth x height x width.", fill=GREY)

    def cube(column, level, shape, fill, side, above=()):
        x, y, edge = left + column * pitch, top + drop * level, edge_of(shape[-1])
        draw_block(picture, x, y, edge, edge, edge * .5, fill, side)
        picture.text(x, y + edge + 15, f"{shape[0]} x {shape[-1]}³")
        for number, line in enumerate(above):
            picture.text(x, y - edge * .25 - 18 + 14 * number, line, size=11, weight="bold")
        return x, y, edge

    places = [cube(0, 0, [4] + [2 * length for length in down[0].shape[1:]], LIGHT_BLUE, BLUE, ("dark matter",))]
    for number, layer in enumerate(down):
        places.append(cube(number + 1, number + 1, layer.shape, LIGHT_BLUE, BLUE))
    rising = [places[-1]]
    for number, layer in enumerate(up):
        is_last = number + 1 == len(up)
        column = len(down) + 1 + number
        rising.append(cube(column, len(down) - 1 - number, layer.shape, LIGHT_ORANGE, ORANGE, ("gas",) if is_last else ()))
    # From level to level.
    for (x, y, edge), (to_x, to_y, to_edge) in zip(places, places[1:]):
        picture.arrow(x + edge + edge * .5 + 2, y + edge * .5, to_x + to_edge * .4, to_y - to_edge * .25 - 3, BLUE)
    for (x, y, edge), (to_x, to_y, to_edge) in zip(rising, rising[1:]):
        picture.arrow(x + edge * 1.1, y - edge * .25 - 2, to_x - 4, to_y + to_edge * .7, ORANGE)
    # Skips: the level's own values, put beside those that come up.
    for (x, y, edge), (to_x, to_y, _), layer in zip(places[1:-1], rising[-2:0:-1], up[-2::-1]):
        begin, y = x + edge * 1.5 + 4, y + edge * .15
        picture.line([(begin, y), (to_x - 10, y)], GREEN, 1.5, True)
        picture.arrow(to_x - 14, y, to_x - 4, y, GREEN)
        picture.text((begin + to_x) / 2, y - 5, f"skip: {joined[layer.name][0]} channels together", "middle", GREEN, 11)
    kernel = kernel_of(down[0], 4, 3)
    y = top + drop * len(down) + 66
    for x, colour, text in ((left, BLUE, f"{kernel}x{kernel}x{kernel} convolution, stride 2"), (left + 250, ORANGE, "transposed convolution, stride 2"),
                            (left + 490, GREEN, "skip")):
        picture.line([(x, y - 4), (x + 22, y - 4)], colour, 2)
        picture.text(x + 28, y, text)
    picture.write("unet")
