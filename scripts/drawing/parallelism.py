"""What four ranks share in each kind of parallelism. What a rank has is drawn filled, what it lacks is dashed."""
from drawing.picture import BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, TEXT, Picture

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
RANKS, SAMPLES, LAYERS = 4, 8, 4
LEFT, PITCH, WIDTH = 110, 165, 120  # of a rank's column
SAMPLE, SAMPLE_TOP = 26, 70         # two rows of four samples
LAYER_TOP, LAYER_PITCH, LAYER_HEIGHT = 160, 46, 22
BOTTOM = LAYER_TOP + LAYERS * LAYER_PITCH


def column(rank):
    return LEFT + rank * PITCH


def layer_y(layer):
    return LAYER_TOP + layer * LAYER_PITCH


# Of a box as large as the whole: the share (begin, end) of its width or its height that a rank has.
def part(picture, x, y, width, height, colour, share, by_rows=False):
    picture.box(x, y, width, height, "#fff", GREY, dashed=share != (0, 1))
    begin, end = share
    if begin == end:
        return
    if by_rows:
        picture.box(x, y + begin * height, width, (end - begin) * height, colour)
    else:
        picture.box(x + begin * width, y, (end - begin) * width, height, colour)


# A picture with what each rank has: sample_share(rank, sample) and layer_share(rank, layer).
def begin_picture(title, sample_share, layer_share, samples_by_rows=False):
    picture = Picture(790, BOTTOM + 72)
    picture.text(20, 24, title, weight="bold")
    picture.text(LEFT - 14, SAMPLE_TOP + 30, "a batch", "end")
    picture.text(LEFT - 14, LAYER_TOP + LAYERS * LAYER_PITCH / 2 - 4, "the network's", "end")
    picture.text(LEFT - 14, LAYER_TOP + LAYERS * LAYER_PITCH / 2 + 11, "layers", "end")
    for rank, colour in enumerate(COLOURS):
        x = column(rank)
        picture.text(x + WIDTH / 2, SAMPLE_TOP - 12, f"rank {rank}", "middle", colour, weight="bold")
        for sample in range(SAMPLES):
            place = x + 4 + sample % 4 * (SAMPLE + 3), SAMPLE_TOP + sample // 4 * (SAMPLE + 3)
            part(picture, *place, SAMPLE, SAMPLE, colour, sample_share(rank, sample), samples_by_rows)
        for layer in range(LAYERS):
            part(picture, x, layer_y(layer), WIDTH, LAYER_HEIGHT, colour, layer_share(rank, layer))
    return picture


def whole(*_):
    return 0, 1


# What all ranks do together.
def band(picture, y, text, height=22):
    picture.box(column(0), y, (RANKS - 1) * PITCH + WIDTH, height, PALE, GREY)
    picture.text(column(0) + ((RANKS - 1) * PITCH + WIDTH) / 2, y + height / 2 + 4, text, "middle")


def steps_down(picture):
    for rank in range(RANKS):
        x = column(rank) + WIDTH / 2
        for layer in range(LAYERS - 1):
            picture.arrow(x, layer_y(layer) + LAYER_HEIGHT + 2, x, layer_y(layer + 1) - 2, GREY)


def draw_data_parallel():
    picture = begin_picture("Data parallelism: each rank has samples of its own, and the whole network",
                            lambda rank, sample: (0, int(sample // 2 == rank)), whole)
    steps_down(picture)
    band(picture, BOTTOM + 4, "all-reduce: the mean of all ranks' gradients, while backward goes on")
    picture.text(column(0), BOTTOM + 52, "Then all ranks take the same step.")
    picture.write("data-parallel")


def draw_spatial_parallel():
    picture = begin_picture("Spatial parallelism: each rank has a quarter of every sample, and the whole network",
                            lambda rank, _: (rank / RANKS, (rank + 1) / RANKS), whole, samples_by_rows=True)
    steps_down(picture)
    for layer in range(LAYERS):
        y = layer_y(layer) + LAYER_HEIGHT / 2
        for rank in range(RANKS - 1):
            begin, end = column(rank) + WIDTH + 4, column(rank + 1) - 4
            picture.arrow(begin, y - 5, end, y - 5)
            picture.arrow(end, y + 5, begin, y + 5)
    band(picture, BOTTOM + 4, "all-reduce: the sum of all ranks' gradients, while backward goes on")
    picture.text(column(0), BOTTOM + 52, "Arrows: halos, the rows next to a cut. They travel before each layer, and in backward again.")
    picture.write("spatial-parallel")


def draw_pipeline_parallel():
    picture = begin_picture("Pipeline parallelism: each rank has a quarter of the layers, and samples pass through all ranks",
                            lambda rank, _: (0, int(rank == 0)), lambda rank, layer: (0, int(rank == layer)))
    picture.arrow(column(0) + WIDTH / 2, SAMPLE_TOP + 2 * SAMPLE + 6, column(0) + WIDTH / 2, LAYER_TOP - 3)
    for rank in range(RANKS - 1):
        y, to_y = layer_y(rank), layer_y(rank + 1)
        picture.arrow(column(rank) + WIDTH + 4, y + 8, column(rank + 1) - 4, to_y + 4, TEXT)
        picture.arrow(column(rank + 1) - 4, to_y + 18, column(rank) + WIDTH + 4, y + 22, GREY)
    picture.text(column(0), BOTTOM + 20, "Black: what a layer has made of a few samples. Grey: the gradient of that, on the way back.")
    picture.text(column(0), BOTTOM + 52, "Each rank updates its own layers. Nobody needs all gradients.")
    picture.write("pipeline-parallel")


def draw_tensor_parallel():
    picture = begin_picture("Tensor parallelism: each rank has a quarter of the weights of every layer, and all samples",
                            whole, lambda rank, _: (rank / RANKS, (rank + 1) / RANKS))
    for layer in (1, 3):
        band(picture, layer_y(layer) + LAYER_HEIGHT + 4, "all-reduce: the sum of four parts of each value", 16)
    picture.text(column(0), BOTTOM + 20, "Layers go in pairs, the first cut by its outputs, the second by its inputs: one all-reduce for both,")
    picture.text(column(0), BOTTOM + 36, "and another in backward, for which everybody waits.")
    picture.text(column(0), BOTTOM + 58, "Each rank updates its own part.")
    picture.write("tensor-parallel")
