// One timeline: its labels, its canvas, and what one does with mouse and keys. Texts only by textContent.
const CLOSEST = 20; // units that fill the canvas at the strongest zoom

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

class Timeline {
  constructor(figure) {
    this.figure = figure;
    this.data = readTimeline(figure.querySelector("script").textContent);
    const beyond = Math.max(0, ...this.data.lines.filter((l) => l[1] === "bound").map((l) => l[0] * 1.03));
    this.least = -this.data.length * 0.02;
    this.most = Math.max(this.data.length * 1.02, Math.min(beyond, this.data.length * 3));
    [this.from, this.to] = this.whole = [-this.data.length * 0.01, this.data.length * 1.02];
    this.same = null;
    this.lay();
    this.listen();
    this.resize();
    figure.classList.add("drawn");
  }

  // ---------------------------------------------------------------- layout

  lay() {
    const { data, figure } = this, many = data.rows.length;
    figure.append(this.toolbar());
    const body = make("div", "tl-body"), names = make("div", "tl-names"), ends = make("div", "tl-ends");
    this.area = make("div", "tl-area");
    this.canvas = make("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `Timeline of ${many} ranks. Plus and minus zoom, the arrow keys move, 0 shows all. The course of events below says it in words.`);
    this.cursor = make("div", "tl-cursor");
    this.area.append(this.canvas, this.cursor);
    this.labels = []; // of hosts and rows, from the top: the row (-1: a host), and what stands beside it
    let host = -1;
    for (const [n, row] of data.rows.entries()) {
      if (data.hosts.length && row.host !== host) {
        host = row.host;
        const [title, guilty] = data.hosts[host], name = make("div", "tl-host", title);
        if (guilty) name.append(make("b", "", `${guilty}: culprit`));
        this.labels.push([-1, name, make("div", "tl-host")]);
      }
      const name = make("div", `tl-name${row.culprit ? " culprit" : row.victim ? " victim" : ""}`, row.name);
      if (row.culprit) name.append(make("b", "", "culprit"));
      else if (row.victim) name.append(make("i", "", "victim"));
      name.title = row.name;
      this.labels.push([n, name, make("div", /^exit 0$|^$/.test(row.exit) ? "tl-end" : "tl-end bad", row.exit)]);
    }
    for (const [, name, end] of this.labels) {
      names.append(name);
      ends.append(end);
    }
    this.body = body;
    body.append(names, this.area, ends);
    figure.append(body, this.bar());
  }

  // The heights of rows; on paper all of them have to fit on a page, and better below something else.
  place() {
    const many = this.data.rows.length, hosts = this.labels.length - many;
    const paper = document.documentElement.classList.contains("paper");
    const usual = many <= 8 ? 30 : many <= 16 ? 22 : many <= 32 ? 16 : 13;
    const hostHeight = paper ? 13 : 20;
    this.rowHeight = paper ? Math.max(5, Math.min(usual, 20, Math.floor((480 - hosts * hostHeight) / many))) : usual;
    this.tops = [];
    let top = AXIS;
    for (const [n, ...elements] of this.labels) {
      const height = n < 0 ? hostHeight : this.rowHeight;
      if (n >= 0) this.tops[n] = top;
      for (const element of elements) element.style.height = element.style.lineHeight = `${height}px`;
      top += height;
    }
    this.height = top + 2;
    this.body.classList.toggle("dense", this.rowHeight < 18);
  }

  toolbar() {
    const bar = make("div", "tl-tools"), zoom = make("span", "tl-zoom");
    const button = (label, title, act) => {
      const made = make("button", "", label);
      made.type = "button";
      made.title = title;
      made.setAttribute("aria-label", title);
      made.addEventListener("click", act);
      zoom.append(made);
    };
    button("−", "Zoom out (key −)", () => this.zoom(2));
    button("+", "Zoom in (key +)", () => this.zoom(0.5));
    button("whole", "Show the whole arm (key 0)", () => this.show(...this.whole));
    for (const [at, kind, label] of this.data.lines)
      if (kind === "injection" || kind === "error") button(kind === "error" ? "first error" : label, `Show the time around: ${label}`, () => this.around(at));
    button("end", "Show the end", () => this.around(Math.max(...this.data.rows.map((r) => r.end))));
    bar.append(zoom, this.legend());
    return bar;
  }

  legend() {
    const legend = make("span", "tl-legend"), used = new Set(this.data.forms.map((f) => f[0]));
    const shown = this.data.ops.map((name, n) => [name, n]).filter(([, n]) => used.has(n)).slice(0, 8);
    this.swatches = [];
    for (const [name, n] of shown) legend.append(this.swatch(name, (pen) => {
      pen.g.fillStyle = pen.ofOp(this.data, n);
      pen.g.fillRect(0, 2, 16, 10);
    }));
    if (shown.length) legend.append(this.swatch("waiting for others", (pen) => pen.waiting(pen.ofOp(this.data, shown.at(-1)[1]), 0, 2, 16, 10)));
    if (this.data.rows.some((r) => r.stops.length)) legend.append(this.swatch("stopped", (pen) => {
      pen.g.fillStyle = pen.colours.warn;
      pen.g.fillRect(0, 9, 16, 3);
    }));
    const names = { injected: "injection", error: "error", guard: "guard fired", noticed: "guard noticed", signal: "signal", exit: "process ends", finished: "work done", held: "held by chaoskit", diverged: "divergence" };
    const kinds = new Set(this.data.marks.filter((m) => m[1] >= 0).map((m) => m[2]));
    for (const [kind, name] of Object.entries(names)) if (kinds.has(kind)) legend.append(this.swatch(name, (pen) => drawShape(pen, kind, 8, 7, 0.9)));
    return legend;
  }

  swatch(name, draw) {
    const item = make("span"), canvas = make("canvas");
    canvas.setAttribute("aria-hidden", "true");
    item.append(canvas, name);
    this.swatches.push([canvas, draw]);
    return item;
  }

  bar() {
    const bar = make("div", "tl-scroll");
    this.thumb = make("div");
    bar.append(this.thumb);
    return bar;
  }

  // ---------------------------------------------------------------- drawing

  resize() {
    this.place();
    this.width = Math.max(200, this.area.clientWidth);
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    for (const [canvas, width, height] of [[this.canvas, this.width, this.height], ...this.swatches.map(([c]) => [c, 16, 14])]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.pen = new Pen(this.canvas, ratio);
    for (const [canvas, draw] of this.swatches) {
      const pen = new Pen(canvas, ratio);
      pen.g.setTransform(ratio, 0, 0, ratio, 0, 0);
      draw(pen);
    }
    this.draw();
  }

  draw() {
    drawTimeline(this);
    this.waits = false;
    this.figure.dataset.from = this.from;
    this.figure.dataset.to = this.to;
    const all = this.most - this.least;
    this.thumb.style.left = `${((this.from - this.least) / all) * 100}%`;
    this.thumb.style.width = `${((this.to - this.from) / all) * 100}%`;
  }

  drawSoon() {
    if (!this.waits) requestAnimationFrame(() => this.draw());
    this.waits = true;
  }

  x(at) {
    return ((at - this.from) / (this.to - this.from)) * this.width;
  }

  at(x) {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  wholePixel(x) {
    return Math.round(x * this.pen.ratio) / this.pen.ratio;
  }

  clip(x) {
    return Math.min(Math.max(x, -4), this.width + 4);
  }

  // ---------------------------------------------------------------- zoom

  show(from, to) {
    const length = Math.min(Math.max(to - from, CLOSEST), this.most - this.least);
    this.from = Math.min(Math.max(from, this.least), this.most - length);
    this.to = this.from + length;
    this.drawSoon();
  }

  zoom(factor, around = this.anchor()) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  // What buttons and keys zoom into: the injection while it is in sight.
  anchor() {
    const line = this.data.lines.find((l) => l[1] === "injection");
    return line && line[0] > this.from && line[0] < this.to ? line[0] : (this.from + this.to) / 2;
  }

  around(at) {
    const reach = Math.max(this.data.length / 40, CLOSEST);
    this.show(at - reach, at + reach);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return; // the page scrolls
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move((event.deltaX / this.width) * (this.to - this.from));
      else this.zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 300), this.at(event.offsetX));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(0.25, this.at(event.offsetX)));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = { x: event.clientX, from: this.from, to: this.to };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.drag) {
        const by = ((this.drag.x - event.clientX) / this.width) * (this.drag.to - this.drag.from);
        this.show(this.drag.from + by, this.drag.to + by);
      }
      this.point(event);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.drag = null));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("blur", () => this.leave());
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.thumb.parentElement.addEventListener("pointerdown", (event) => {
      const bar = event.currentTarget.getBoundingClientRect();
      const at = this.least + ((event.clientX - bar.left) / bar.width) * (this.most - this.least), half = (this.to - this.from) / 2;
      this.show(at - half, at + half);
    });
    new ResizeObserver(() => {
      if (this.area.clientWidth && Math.abs(this.area.clientWidth - this.width) > 1) this.resize();
    }).observe(this.area);
  }

  move(by) {
    this.show(this.from + by, this.to + by);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (this.to - this.from) / 8, length = this.to - this.from;
    const act = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), _: () => this.zoom(2),
      0: () => this.show(...this.whole), ArrowLeft: () => this.move(-step), ArrowRight: () => this.move(step),
      Home: () => this.show(this.least, this.least + length), End: () => this.show(this.data.length * 1.02 - length, this.data.length * 1.02),
      Escape: () => this.canvas.blur(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // ---------------------------------------------------------------- what is under the pointer

  point(event) {
    const row = this.tops.findIndex((top) => event.offsetY >= top && event.offsetY < top + this.rowHeight);
    const found = this.found(row, event.offsetX, event.offsetY);
    this.cursor.style.display = "block";
    this.cursor.style.left = `${event.offsetX}px`;
    this.setSame(found.same || null);
    const at = moment((this.at(event.offsetX) - this.data.origin) * this.data.unit);
    const since = this.data.injected ? "from the injection" : "from the start";
    showTip([...found.lines, `${at} ${since}`], event.clientX, event.clientY);
  }

  found(n, x, y) {
    const { data } = this, at = this.at(x);
    const lines = data.lines.filter((l) => Math.abs(this.x(l[0]) - x) < 5).map((l) => l[2]);
    if (n < 0) return { lines };
    const row = data.rows[n];
    const marks = data.marksOf[n].filter((m) => Math.abs(this.x(m.at) - x) < 7);
    if (marks.length) return { lines: [row.name, ...marks.slice(0, 6).map((m) => m.text), ...(marks.length > 6 ? [`and ${marks.length - 6} more: zoom in`] : [])] };
    const span = row.exact.findIndex(([begin, end]) => at >= begin && at <= end);
    const hit = span < 0 ? -1 : this.barAt(row.bars[span], at, (y - this.tops[n]) / this.rowHeight);
    if (hit >= 0) {
      const bars = row.bars[span], form = data.forms[bars.form[hit]];
      return { lines: wordsOfBar(data, row, bars, hit), same: { op: form[1], group: form[2], nth: bars.nth[hit] } };
    }
    if (at < row.begin) return { lines: [row.name, "not started yet"] };
    if (at > row.end) return { lines: [row.name, row.exit || "its end was not seen"] };
    if (span < 0 && row.cells) return { lines: wordsOfCell(data, row, Math.min(data.cells - 1, Math.max(0, Math.floor((at / data.length) * data.cells)))) };
    return { lines: [row.name, ...lines, row.stops.some(([a, b]) => at >= a && at <= b) ? "stopped" : "outside of operations"] };
  }

  barAt(bars, at, share) {
    const near = (2 / this.width) * (this.to - this.from);
    const first = firstFrom(bars.reach, at - near);
    let best = -1, distance = Infinity;
    for (let i = first; i < bars.start.length && bars.start[i] <= at + near; i++) {
      if (bars.end[i] < at - near) continue;
      const off = Math.max(0, bars.start[i] - at, at - bars.end[i]) + (bars.lane[i] === Math.floor(share * bars.lanes[i]) ? 0 : near);
      if (off < distance) [best, distance] = [i, off];
    }
    return best;
  }

  setSame(same) {
    const key = same && `${same.op} ${same.group} ${same.nth}`;
    if (key === (this.sameKey || null)) return;
    this.sameKey = key;
    this.same = same;
    this.drawSoon();
  }

  leave() {
    this.cursor.style.display = "none";
    this.setSame(null);
    hideTip();
  }
}

const tip = make("div", "tip");
tip.setAttribute("role", "tooltip");

function showTip(lines, x, y) {
  tip.replaceChildren(...lines.filter(Boolean).map((line, n) => make("div", n ? "" : "first", line)));
  tip.style.display = "block";
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, x + 16 + width > innerWidth ? x - width - 12 : x + 16)}px`;
  tip.style.top = `${Math.max(4, y + 18 + height > innerHeight ? y - height - 12 : y + 18)}px`;
}

function hideTip() {
  tip.style.display = "none";
}
