// Reads the compact forms that packing.py writes.
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUE = new Map(Array.from(DIGITS, (digit, value) => [digit, value]));

function readNumbers(text) {
  const bytes = atob(text), found = [];
  let value = 0, place = 1;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes.charCodeAt(i);
    value += (byte & 127) * place; // no shifts: they end at 32 bits
    if (byte & 128) {
      place *= 128;
    } else {
      found.push(value);
      value = 0;
      place = 1;
    }
  }
  return found;
}

function readCells(text, count) {
  const cells = new Uint8Array(count * 4);
  let to = 0;
  for (let i = 0; i < text.length && to < cells.length;) {
    if (text[i] === "*") {
      for (let more = VALUE.get(text[i + 1]); more > 0 && to < cells.length; more--, to += 4)
        cells.copyWithin(to, to - 4, to);
      i += 2;
    } else {
      for (let k = 0; k < 4; k++) cells[to + k] = VALUE.get(text[i + k]);
      to += 4;
      i += 4;
    }
  }
  return cells;
}

const unsigned = (n) => (n % 2 ? -(n + 1) / 2 : n / 2);

// One span of a rank's operations: columns of the same length, in order of entry.
function readBars(text) {
  const n = readNumbers(text), bars = { start: [], waited: [], end: [], form: [], how: [], nth: [], step: [] };
  const counts = new Map();
  let before = 0, step = 0;
  for (let i = 0; i < n.length;) {
    const start = before + n[i], waited = start + n[i + 1], end = waited + n[i + 2], code = n[i + 3];
    i += 4;
    const form = Math.floor(code / 8);
    let nth = (counts.get(form) || 0) + 1;
    if (code & 1) {
      nth += unsigned(n[i]);
      step += unsigned(n[i + 1]);
      i += 2;
    }
    bars.start.push(start);
    bars.waited.push(waited);
    bars.end.push(end);
    bars.form.push(form);
    bars.how.push((code >> 1) & 3);
    bars.nth.push(nth);
    bars.step.push(step);
    counts.set(form, nth);
    before = start;
  }
  return layBars(bars);
}

// Operations that overlap lie below one another: the `lane` of each, and how many `lanes` share the height there.
// `reach`: the latest end so far.
function layBars(bars) {
  const most = 4, count = bars.start.length;
  bars.lane = new Uint8Array(count);
  bars.lanes = new Uint8Array(count);
  bars.reach = new Float64Array(count);
  let free = [], first = 0, reach = 0;
  for (let i = 0; i <= count; i++) {
    if (i === count || bars.start[i] >= reach) { // nothing goes on: those before share the height
      bars.lanes.fill(Math.max(1, free.length), first, i);
      if (i === count) break;
      [free, first] = [[], i];
    }
    let lane = free.findIndex((end) => end <= bars.start[i]);
    if (lane < 0) lane = free.length < most ? free.length : most - 1;
    free[lane] = bars.end[i];
    bars.lane[i] = lane;
    reach = Math.max(reach, bars.end[i]);
    bars.reach[i] = reach;
  }
  return bars;
}

function readTimeline(text) {
  const data = JSON.parse(text);
  for (const row of data.rows) {
    row.cells = row.cells ? readCells(row.cells, data.cells) : null;
    row.bars = (row.bars || []).map(readBars);
    row.exact = row.exact || [];
  }
  data.marksOf = data.rows.map(() => []);
  for (const [at, row, kind, text] of data.marks) if (row >= 0) data.marksOf[row].push({ at, kind, text });
  return data;
}

// The first place in an ascending array that is not below `value`.
function firstFrom(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
