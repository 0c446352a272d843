"""What the drawings of scripts/drawings are made of: an SVG, its shapes and colours."""
import math
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs/images/tutorial"
BLUE, LIGHT_BLUE, ORANGE, LIGHT_ORANGE = "#0072b2", "#8cc6e8", "#d55e00", "#f2b58c"
GREEN, PURPLE, GREY, PALE, TEXT = "#009e73", "#cc79a7", "#999", "#eee", "#333"


class Picture:
    def __init__(self, width, height):
        self.lines = ["<!-- drawn by scripts/drawings -->",
                      f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                      f'font-family="sans-serif" font-size="12" fill="{TEXT}">',
                      '<rect width="100%" height="100%" fill="#fff"/>']

    def add(self, line):
        self.lines.append(line)

    def text(self, x, y, text, anchor="start", fill=TEXT, size=12, weight="normal", turned=False):
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
                 f'font-weight="{weight}"{turn}>{text}</text>')

    def box(self, x, y, width, height, fill, stroke="#fff", dashed=False):
        dashes = ' stroke-dasharray="3 2"' if dashed else ""
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="{stroke}"{dashes}/>')

    def line(self, points, stroke=TEXT, width=1.0, dashed=False):
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.add(f'<polyline points="{places}" fill="none" stroke="{stroke}" stroke-width="{width}"{dashes}/>')

    def shape(self, points, fill, stroke="#fff"):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.add(f'<polygon points="{places}" fill="{fill}" stroke="{stroke}"/>')

    def arrow(self, x, y, to_x, to_y, stroke=TEXT):
        angle = math.atan2(to_y - y, to_x - x)
        self.line([(x, y), (to_x, to_y)], stroke, 1.5)
        self.shape([(to_x, to_y)] + [(to_x - 8 * math.cos(angle + turn), to_y - 8 * math.sin(angle + turn)) for turn in (-.4, .4)],
                   stroke, stroke)

    def write(self, name):
        path = FOLDER / f"{name}.svg"
        path.write_text("\n".join(self.lines + ["</svg>"]) + "\n")
        print(path.relative_to(ROOT))


# A block of the sample: its front, top and right face.
def draw_block(picture, x, y, width, height, depth, fill, side):
    slant = depth * .5
    picture.shape([(x, y), (x + width, y), (x + width + depth, y - slant), (x + depth, y - slant)], fill)
    picture.shape([(x + width, y), (x + width + depth, y - slant), (x + width + depth, y + height - slant), (x + width, y + height)], side)
    picture.shape([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], fill)
