// Durations and moments as people read them.
function inUnit(seconds, step) {
  const size = Math.max(Math.abs(seconds), 1e-9);
  const [factor, unit] = size >= 0.9995 || step >= 0.5 ? [1, "s"] : size >= 0.9995e-3 || step >= 0.5e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return [factor, unit];
}

function duration(seconds) {
  if (seconds === 0) return "0 s";
  const [factor, unit] = inUnit(seconds, 0);
  const value = seconds * factor;
  return `${Math.abs(value) < 99.95 ? Number(value.toPrecision(3)) : Math.round(value)} ${unit}`;
}

function moment(seconds, step = 0) {
  if (Math.abs(seconds) < Math.max(step / 1000, 5e-10)) return "0";
  const unitOf = step ? (step >= 0.1 ? [1, "s"] : step >= 1e-4 ? [1e3, "ms"] : [1e6, "µs"]) : inUnit(seconds, 0);
  const value = Math.abs(seconds) * unitOf[0];
  const digits = step ? Math.max(0, Math.ceil(-Math.log10(step * unitOf[0]) - 1e-9)) : value < 10 ? 3 : value < 100 ? 2 : 1;
  return `${seconds < 0 ? "−" : "+"}${value.toFixed(digits)} ${unitOf[1]}`;
}

// A step of 1, 2 or 5 times a power of ten that is at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least);
}

const HOW = ["never ended", "completed", "failed"];

function wordsOfBar(data, row, bars, i) {
  const [, op, group, tensor, site, peer, thread] = data.forms[bars.form[i]];
  const unit = data.unit, waiting = (bars.waited[i] - bars.start[i]) * unit, working = (bars.end[i] - bars.waited[i]) * unit;
  const lines = [`${op} #${bars.nth[i]}, ${HOW[bars.how[i]] || "open"}`, `${row.name}, group ${group}, step ${bars.step[i]}`];
  lines.push(`entered ${moment((bars.start[i] - data.origin) * unit)}, took ${duration((bars.end[i] - bars.start[i]) * unit)}`);
  lines.push(working > 0 || bars.how[i] === 1
    ? `waiting for others ${duration(waiting)}, the operation itself ${duration(working)}`
    : `waiting for others ${duration(waiting)}: not all members entered`);
  if (peer >= 0) lines.push(`other side: rank ${peer}`);
  if (thread > 0) lines.push(`thread ${thread} of the script`);
  if (tensor) lines.push(tensor);
  if (site) lines.push(site);
  return lines;
}

function wordsOfCell(data, row, n) {
  const [waiting, working, op, count] = row.cells.subarray(n * 4, n * 4 + 4);
  const percent = (share) => `${Math.round((share / 63) * 100)} %`;
  const lines = [`${row.name}: summed up over ${duration((data.length / data.cells) * data.unit)}`];
  if (waiting + working > 0) {
    lines.push(`waiting for others ${percent(waiting)}, in operations ${percent(working)}`);
    lines.push(`most of it ${data.ops[op] || "other"}`);
  } else lines.push("outside of operations");
  if (count) lines.push(`${count >= 63 ? "63 or more" : count} operations entered`);
  return lines;
}
