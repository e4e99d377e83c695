const data = JSON.parse(document.getElementById("data").textContent);
const map = document.getElementById("map"), panel = document.getElementById("cell");
const form = document.getElementById("view"), rows = [...map.querySelectorAll("tr.row")];
const heads = [...map.querySelectorAll(".heads th span")].map((one) => one.textContent);
let focused = null;

function place(cell) {
  const row = cell.parentElement;
  return [rows.indexOf(row), cell.cellIndex - 1];
}

function show(cell) {
  const [y, x] = place(cell), facts = data[y] && data[y][x];
  if (!facts || !facts.length) { panel.hidden = true; return; }
  panel.querySelector("h2").textContent = rows[y].dataset.name + " × " + heads[x];
  const list = panel.querySelector("dl");
  list.replaceChildren();
  for (const [label, text] of facts) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = label;
    if (label === "run again" || label === "files") {
      const code = document.createElement("code");
      code.textContent = text;
      dd.append(code);
    } else dd.textContent = text;
    list.append(dt, dd);
  }
  panel.hidden = false;
}

function focus(cell) {
  if (focused) focused.tabIndex = -1;
  focused = cell;
  cell.tabIndex = 0;
  cell.focus({ preventScroll: false });
}

const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
map.addEventListener("keydown", (event) => {
  const step = steps[event.key];
  if (event.key === "Escape") panel.hidden = true;
  if (!step || !focused) return;
  event.preventDefault();
  const shown = rows.filter((row) => !row.hidden), [, x] = place(focused);
  const row = shown[shown.indexOf(focused.parentElement) + step[0]];
  const cell = row && row.cells[x + 1 + step[1]];
  if (cell && cell.tagName === "TD") focus(cell);
});
map.addEventListener("click", (event) => {
  const cell = event.target.closest("tr.row td");
  if (cell) focus(cell);
});
map.addEventListener("focusin", (event) => {
  if (event.target.tagName === "TD") { focused = event.target; show(focused); }
});
panel.querySelector("button").addEventListener("click", () => { panel.hidden = true; });
form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => {
  const view = form.elements.view.value, wanted = form.querySelector("[type=search]").value.toLowerCase();
  map.className = view;
  document.body.className = view;
  for (const row of rows) row.hidden = !row.dataset.name.toLowerCase().includes(wanted);
  for (const body of map.tBodies) body.hidden = ![...body.querySelectorAll("tr.row")].some((row) => !row.hidden);
});
const first = rows.length && rows[0].cells[1];
if (first) { first.tabIndex = 0; focused = first; }
