"""The picture of buckets: a step of two ranks, whose gradients are averaged while backward goes on."""
from .picture import BLUE, GREEN, GREY, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, PALE, TEXT, Picture


def draw_buckets():
    picture = Picture(960, 390)
    picture.text(20, 24, "One step on two ranks: each bucket is averaged as soon as its gradients are there", weight="bold", size=13)

    # The network: four layers, cut into three buckets from its end.
    picture.text(20, 56, "The network's parameters, in flat memory")
    layers = [("layer 1", 90), ("layer 2", 150), ("layer 3", 210), ("layer 4", 130)]
    buckets = [("bucket 3", 90, GREEN), ("bucket 2", 360, ORANGE), ("bucket 1", 130, BLUE)]
    x = 20
    for name, width in layers:
        picture.box(x, 64, width, 22, PALE, "#fff")
        picture.text(x + width / 2, 79, name, "middle")
        x += width
    x = 20
    for name, width, colour in buckets:
        picture.box(x, 90, width, 22, colour)
        picture.text(x + width / 2, 105, name, "middle", "#fff")
        x += width
    picture.text(x + 14, 105, "cut from the end: backward reaches layer 4 first", fill=GREY)

    # Time from left to right. Rank 1's rows are mirrored, so that the averages of both lie side by side.
    left = 150
    backward = [("layer 4", 120, BLUE), ("layer 3", 170, ORANGE), ("layer 2", 130, ORANGE), ("layer 1", 80, GREEN)]
    averages = [("bucket 1", 120, 110, BLUE), ("bucket 2", 420, 150, ORANGE), ("bucket 3", 570, 70, GREEN)]
    for rank, top, averages_top, light in (("rank 0", 150, 196, LIGHT_BLUE), ("rank 1", 312, 266, LIGHT_ORANGE)):
        picture.text(20, top + 16, rank, weight="bold")
        picture.text(left - 12, top + 16, "backward", "end")
        x = left
        for name, width, colour in backward:
            picture.box(x, top, width, 20, light)
            picture.box(x, top + 20, width, 5, colour)
            picture.text(x + width / 2, top + 15, name, "middle")
            x += width
        picture.text(left - 12, averages_top + 16, "averages", "end")
        for name, start, width, colour in averages:
            picture.box(left + start, averages_top, width, 24, colour)
            picture.text(left + start + width / 2, averages_top + 16, name, "middle", "#fff")
        picture.box(left + 650, top, 90, 25, PALE, TEXT)
        picture.text(left + 695, top + 16, "update", "middle")
    for name, start, width, colour in averages:
        middle = left + start + width / 2
        picture.arrow(middle - 8, 222, middle - 8, 264, colour)
        picture.arrow(middle + 8, 264, middle + 8, 222, colour)
    picture.text(left + 215, 247, "all-reduce: each rank gets the mean", "start", GREY)
    picture.line([(left + 500, 140), (left + 500, 350)], GREY, 1.0, True)
    picture.text(left + 506, 360, "only what runs after backward costs time", "start", GREY)
    picture.arrow(left, 374, left + 740, 374, GREY)
    picture.text(left + 748, 378, "time", fill=GREY)
    picture.write("buckets")
