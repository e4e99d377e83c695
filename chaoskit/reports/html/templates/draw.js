// Draws a timeline. Colours come from the style sheet, so that it follows light, dark and paper.
const AXIS = 48;
const LABELS = [9, 23]; // where the labels of lines stand, above the axis
// The same operation has the same colour in every arm and on every page; names that are not here share the last ones.
const COLOUR_OF = new Map([
  ["all_reduce", 0], ["broadcast", 1], ["barrier", 2], ["all_gather", 3], ["all_gather_into_tensor", 3], ["all_gather_object", 3],
  ["reduce_scatter", 4], ["reduce_scatter_tensor", 4], ["send", 5], ["isend", 5], ["recv", 6], ["irecv", 6], ["all_to_all", 7], ["all_to_all_single", 7],
]);
const OPS = 12, FIXED = 8;

function colours() {
  const style = getComputedStyle(document.documentElement), found = {};
  for (const name of ["bg", "ink", "dim", "line", "track", "bad", "warn", "good", "bound", "other"]) found[name] = style.getPropertyValue(`--${name}`).trim();
  found.ops = Array.from({ length: OPS }, (_, n) => style.getPropertyValue(`--op${n}`).trim());
  return found;
}

class Pen {
  constructor(canvas, ratio) {
    this.g = canvas.getContext("2d");
    this.ratio = ratio;
    this.colours = colours();
    this.hatches = new Map();
    this.font = getComputedStyle(document.body).fontFamily;
  }

  ofOp(data, op) {
    const name = data.ops[op];
    if (name === undefined || name === "init" || op === data.ops.length - 1) return this.colours.other;
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 65521;
    return this.colours.ops[COLOUR_OF.get(name) ?? FIXED + (hash % (OPS - FIXED))];
  }

  // Stripes: what waits. Made at the resolution of the screen, else they are blurred.
  hatch(colour) {
    if (!this.hatches.has(colour)) {
      const size = 6 * this.ratio, tile = document.createElement("canvas");
      tile.width = tile.height = size;
      const g = tile.getContext("2d");
      g.globalAlpha = 0.2;
      g.fillStyle = colour;
      g.fillRect(0, 0, size, size);
      g.globalAlpha = 0.75;
      g.strokeStyle = colour;
      g.lineWidth = 1.2 * this.ratio;
      g.beginPath();
      for (const shift of [-size, 0, size]) {
        g.moveTo(shift, size);
        g.lineTo(shift + size, 0);
      }
      g.stroke();
      const pattern = this.g.createPattern(tile, "repeat");
      pattern.setTransform(new DOMMatrix().scale(1 / this.ratio));
      this.hatches.set(colour, pattern);
    }
    return this.hatches.get(colour);
  }

  waiting(colour, x, y, width, height) {
    const g = this.g;
    if (width >= 4) {
      g.fillStyle = this.hatch(colour);
      g.fillRect(x, y, width, height);
    } else {
      g.globalAlpha = 0.4;
      g.fillStyle = colour;
      g.fillRect(x, y, width, height);
      g.globalAlpha = 1;
    }
  }

  text(text, x, y, colour, size = 11, align = "left", weight = "") {
    const g = this.g;
    g.font = `${weight} ${size}px ${this.font}`;
    g.textAlign = align;
    g.textBaseline = "middle";
    g.fillStyle = colour;
    g.fillText(text, x, y);
  }
}

function drawTimeline(view) {
  const { data, pen, width, height } = view, g = pen.g, c = pen.colours;
  g.setTransform(pen.ratio, 0, 0, pen.ratio, 0, 0);
  g.fillStyle = c.bg;
  g.fillRect(0, 0, width, height);
  const lines = placed(view);
  drawAxis(view, lines);
  data.rows.forEach((row, n) => drawRow(view, row, view.tops[n]));
  if (view.same) drawSame(view);
  drawLines(view, lines);
  data.rows.forEach((row, n) => {
    for (const mark of data.marksOf[n]) drawMark(view, mark, view.tops[n]);
  });
}

function drawAxis(view, lines) {
  const { data, pen, width, height } = view, g = pen.g, unit = data.unit;
  const step = niceStep(((view.to - view.from) * unit * 80) / width);
  const first = Math.ceil(((view.from - data.origin) * unit) / step);
  g.strokeStyle = pen.colours.line;
  g.lineWidth = 1;
  for (let n = first; ; n++) {
    const x = view.x(data.origin + (n * step) / unit);
    if (x > width) break;
    g.beginPath();
    g.moveTo(Math.round(x) + 0.5, AXIS - 2);
    g.lineTo(Math.round(x) + 0.5, height);
    g.stroke();
    const label = moment(n * step, step), half = label.length * 3.2;
    const free = !lines.some((l) => (Math.abs(l.x - x) < half + 4 && l.drawn) || (l.label && l.y > LABELS[0] && x + half > l.a - 4 && x - half < l.end + 4));
    if (free && x - half > 0 && x + half < width) pen.text(label, x, AXIS - 9, pen.colours.dim, 11, "center");
  }
}

function drawRow(view, row, top) {
  const { data, pen, rowHeight } = view, g = pen.g, c = pen.colours;
  const gap = rowHeight > 14 ? 3 : 1, y = top + gap, h = rowHeight - 2 * gap;
  const left = view.clip(view.x(row.begin)), right = view.clip(view.x(row.end));
  g.fillStyle = c.track;
  g.fillRect(left, y, Math.max(0, right - left), h);
  let from = 0;
  row.exact.forEach(([begin, end], n) => {
    drawCells(view, row, from, begin, y, h);
    drawBars(view, row, n, begin, end, y, h);
    from = end;
  });
  drawCells(view, row, from, data.length, y, h);
  for (const [begin, end] of row.stops) {
    const a = view.clip(view.x(begin)), b = view.clip(view.x(end));
    if (b - a < 1) continue;
    g.fillStyle = c.warn;
    g.fillRect(a, y + h - Math.max(2, h / 5), b - a, Math.max(2, h / 5));
  }
  if (rowHeight > 14) {
    g.fillStyle = c.line;
    g.fillRect(0, top + rowHeight - 0.5, view.width, 0.5);
  }
}

function drawCells(view, row, begin, end, y, h) {
  if (!row.cells || end <= begin) return;
  const { data, pen } = view, g = pen.g, size = data.length / data.cells;
  const from = Math.max(begin, view.from), to = Math.min(end, view.to);
  const wide = Math.max(1, (view.x(size) - view.x(0)));
  let x = view.x(from);
  const stop = Math.min(view.x(to), view.width);
  while (x < stop - 0.01) {
    const first = Math.min(data.cells - 1, Math.floor(view.at(x + 0.01) / size));
    // As many whole cells as fit into this column of pixels, at least one.
    const count = Math.max(1, Math.round(wide / (view.x(size) - view.x(0))));
    let waiting = 0, working = 0, n = 0;
    for (let k = first; k < Math.min(first + count, data.cells); k++, n++) {
      waiting += row.cells[k * 4];
      working += row.cells[k * 4 + 1];
    }
    const next = Math.min(stop, Math.max(x + 0.5, view.x((first + n) * size)));
    if (waiting + working > 0) {
      const colour = pen.ofOp(data, row.cells[first * 4 + 2]);
      const solid = (h * working) / (63 * n), striped = (h * waiting) / (63 * n);
      g.fillStyle = colour;
      const a = view.wholePixel(x), b = view.wholePixel(next); // no seams between neighbours
      g.fillRect(a, y + h - solid, b - a, solid);
      pen.waiting(colour, a, y + h - solid - striped, b - a, striped);
    }
    x = next;
  }
}

function drawBars(view, row, n, begin, end, y, h) {
  const { data, pen } = view, g = pen.g, bars = row.bars[n], count = bars.start.length;
  const first = firstFrom(bars.reach, view.from), last = firstFrom(bars.start, view.to);
  const pixels = view.clip(view.x(end)) - view.clip(view.x(begin));
  const dense = row.cells && last - first > Math.max(8, pixels / 2);
  if (dense) drawCells(view, row, begin, end, y, h);
  const least = dense ? (8 * (view.to - view.from)) / view.width : 0;
  for (let i = first; i < Math.min(last, count); i++) {
    if (bars.end[i] - bars.start[i] < least) continue;
    const a = view.clip(view.x(bars.start[i])), w = view.clip(view.x(bars.waited[i])), b = view.clip(view.x(bars.end[i]));
    if (dense) {
      g.fillStyle = pen.colours.track;
      g.fillRect(a, y, b - a, h);
    }
    const tall = h / bars.lanes[i], top = y + bars.lane[i] * tall;
    const colour = pen.ofOp(data, data.forms[bars.form[i]][0]);
    if (w - a > 0.3) pen.waiting(colour, a, top, w - a, tall);
    if (b - w > 0 || b - a < 1) {
      g.fillStyle = colour;
      g.fillRect(b - a < 1 ? a : w, top, Math.max(b - w, b - a < 1 ? 1 : 0.4), tall);
    }
    if (bars.how[i] === 2) {
      g.fillStyle = pen.colours.bad;
      g.fillRect(b - 2, top, 2, tall);
    }
    labelBar(view, bars, i, a, w, b, top, tall);
  }
}

function labelBar(view, bars, i, a, w, b, top, tall) {
  if (tall < 11 || b - a < 60) return;
  const { data, pen } = view, g = pen.g, op = data.forms[bars.form[i]][1];
  g.font = ` 11px ${pen.font}`;
  const from = Math.max(a, 0), left = Math.min(b, view.width) - from - 9; // what of it is in sight
  const label = [`${op} #${bars.nth[i]}`, op, ""].find((text) => g.measureText(text).width <= left);
  if (!label) return;
  const solid = b - w > w - a && g.measureText(label).width <= Math.min(b, view.width) - Math.max(w, 0) - 9;
  g.save();
  g.beginPath();
  g.rect(a, top, b - a - 4, tall);
  g.clip();
  const x = Math.max(solid ? w : a, 0) + 5;
  if (!solid) { // stripes under letters cannot be read
    g.globalAlpha = 0.85;
    g.fillStyle = pen.colours.bg;
    g.fillRect(x - 3, top + tall / 2 - 7, g.measureText(label).width + 6, 14);
    g.globalAlpha = 1;
  }
  pen.text(label, x, top + tall / 2 + 0.5, solid ? inkOn(pen.ofOp(data, data.forms[bars.form[i]][0])) : pen.colours.ink, 11);
  g.restore();
}

// Black or white, whichever is easier to read on a colour (#rrggbb).
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#000000" : "#ffffff";
}

// The same operation on all ranks, when one of them is pointed at.
function drawSame(view) {
  const { data, pen, rowHeight } = view, g = pen.g, { op, group, nth } = view.same;
  g.strokeStyle = pen.colours.ink;
  g.lineWidth = 1.5;
  data.rows.forEach((row, n) => {
    for (const bars of row.bars) {
      const first = firstFrom(bars.reach, view.from), last = firstFrom(bars.start, view.to);
      for (let i = first; i < last; i++) {
        const form = data.forms[bars.form[i]];
        if (bars.nth[i] !== nth || form[1] !== op || form[2] !== group) continue;
        const a = view.clip(view.x(bars.start[i])), b = view.clip(view.x(bars.end[i]));
        g.strokeRect(a, view.tops[n] + 1.5, Math.max(2, b - a), rowHeight - 3);
      }
    }
  });
}

const LINES = { injection: "bad", error: "warn", bound: "bound", deadline: "dim" };

// The lines in sight, and where their labels have room: right or left of the line, in the first row or the second.
function placed(view) {
  const { data, width } = view, found = [];
  for (const [at, kind, label] of data.lines) {
    const x = view.x(at), size = label.length * 6.1 + 10, beyond = at > view.to;
    if (x < 0 || (beyond && kind !== "bound")) continue;
    const text = beyond ? `${label} ▸` : label, edge = Math.min(x, width);
    const sides = beyond || x + size > width ? [["right", edge - size]] : [["left", x], ["right", x - size]];
    const free = sides.flatMap(([align, a]) => LABELS.map((y) => ({ align, a, y }))).find(({ a, y }) => a >= 0 && !found.some((t) => t.label && t.y === y && a < t.end && a + size > t.a));
    found.push({ ...free, x, edge, kind, drawn: !beyond, label: free ? text : "", end: free ? free.a + size : 0 });
  }
  return found;
}

function drawLines(view, lines) {
  const { pen, height } = view, g = pen.g;
  for (const line of lines) {
    const { x, kind } = line, colour = pen.colours[LINES[kind]];
    if (line.drawn) {
      g.strokeStyle = colour;
      g.lineWidth = 1.5;
      g.setLineDash(kind === "bound" || kind === "deadline" ? [5, 3] : []);
      g.beginPath();
      g.moveTo(x, 2);
      g.lineTo(x, height);
      g.stroke();
      g.setLineDash([]);
    }
    if (line.label) labelLine(pen, line.label, line.align === "right" ? line.edge - 5 : x + 5, line.y, colour, line.align);
  }
}

// On a ground of its own: other lines may run behind it.
function labelLine(pen, text, x, y, colour, align) {
  const g = pen.g;
  g.font = `600 11px ${pen.font}`;
  const wide = g.measureText(text).width;
  g.fillStyle = pen.colours.bg;
  g.fillRect(align === "right" ? x - wide - 2 : x - 2, y - 7, wide + 4, 14);
  pen.text(text, x, y, colour, 11, align, "600");
}

const SHAPES = {
  injected: ["bad", [[-5, -6], [5, -6], [0, 4]]],
  guard: ["good", [[0, -6], [6, 0], [0, 6], [-6, 0]]],
  noticed: ["good", [[0, -5], [5, 0], [0, 5], [-5, 0]], true],
  signal: ["warn", [[-2, -6], [2, -6], [2, 0], [5, 0], [0, 6], [-5, 0], [-2, 0]]],
  resumed: ["warn", [[-4, -5], [5, 0], [-4, 5]]],
  exit: ["ink", [[-2, -6], [2, -6], [2, 6], [-2, 6]]],
  finished: ["dim", [[-4, -4], [4, -4], [4, 4], [-4, 4]], true],
  held: ["dim", [[-4, -5], [1, -5], [1, -3], [-2, -3], [-2, 3], [1, 3], [1, 5], [-4, 5]]],
  other: ["dim", [[-3, -3], [3, -3], [3, 3], [-3, 3]]],
};

function drawMark(view, mark, top) {
  const x = view.x(mark.at);
  if (x < -8 || x > view.width + 8) return;
  drawShape(view.pen, mark.kind, Math.min(Math.max(x, 3), view.width - 3), top + view.rowHeight / 2, view.rowHeight > 14 ? 1 : 0.65);
}

function drawShape(pen, kind, x, y, scale) {
  const g = pen.g, c = pen.colours;
  g.save();
  g.translate(x, y);
  g.scale(scale, scale);
  const strokes = { error: [[-5, -5, 5, 5], [-5, 5, 5, -5]], stopped: [[-3, -5, -3, 5], [3, -5, 3, 5]], diverged: [[-5, -2, 5, -2], [-5, 3, 5, 3], [3, -6, -3, 7]], link: [[-6, 0, -2, 0], [2, 0, 6, 0], [0, -5, 0, 5]] }[kind];
  g.beginPath();
  if (strokes) {
    for (const [a, b, d, e] of strokes) {
      g.moveTo(a, b);
      g.lineTo(d, e);
    }
    for (const [colour, wide] of [[c.bg, 5.5], [kind === "stopped" ? c.warn : c.bad, 2.5]]) {
      g.strokeStyle = colour;
      g.lineWidth = wide;
      g.stroke();
    }
  } else {
    const [colour, points, hollow] = SHAPES[kind] || SHAPES.other;
    points.forEach(([a, b], n) => (n ? g.lineTo(a, b) : g.moveTo(a, b)));
    g.closePath();
    g.strokeStyle = c.bg;
    g.lineWidth = 3;
    g.stroke();
    g.fillStyle = hollow ? c.bg : c[colour];
    g.fill();
    if (hollow) {
      g.strokeStyle = c[colour];
      g.lineWidth = 1.8;
      g.stroke();
    }
  }
  g.restore();
}
