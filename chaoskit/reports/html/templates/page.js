// The page around the timelines: they are made when they come into sight; all is open on paper.
const timelines = new Map();

function begin(figure) {
  if (timelines.has(figure)) return;
  try {
    timelines.set(figure, new Timeline(figure));
  } catch (error) {
    figure.append(make("p", "problem", `The timeline cannot be drawn: ${error.message}`));
    timelines.set(figure, null);
    console.error(error);
  }
}

function redraw() {
  for (const timeline of timelines.values()) if (timeline && timeline.area.clientWidth) timeline.resize();
}

const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) {
    sight.unobserve(entry.target);
    begin(entry.target);
  }
}, { rootMargin: "300px" });
const figures = [...document.querySelectorAll("figure.timeline")];
figures.forEach((figure) => sight.observe(figure));
document.body.append(tip);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// A link to a folded arm opens it.
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  const details = target && target.querySelector("details");
  if (details) {
    details.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
openTarget();

let folded = [];
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("paper");
  folded = [...document.querySelectorAll("details:not([open]):not(.ours)")];
  for (const details of folded) details.open = true;
  figures.forEach(begin);
  redraw();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("paper");
  for (const details of folded) details.open = false;
  redraw();
});

const filter = document.getElementById("filter");
if (filter) {
  filter.hidden = false;
  const text = filter.querySelector("input[type=search]"), bad = filter.querySelector("input[type=checkbox]");
  const apply = () => {
    const wanted = text.value.toLowerCase();
    for (const element of document.querySelectorAll("[data-name]"))
      element.hidden = !element.dataset.name.toLowerCase().includes(wanted) || (bad.checked && element.dataset.fine === "yes");
  };
  text.addEventListener("input", apply);
  bad.addEventListener("change", apply);
}
