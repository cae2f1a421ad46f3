// @ts-check
// The lineage diagram: selecting a box fades all boxes that are neither upstream nor downstream of it. Dragging moves the diagram.
import { live } from "./live.js";

const part = /** @type {HTMLElement} */ (document.getElementById("live"));
const map = () => document.getElementById("map");
const graph = () => document.getElementById("graph");
let scale = 1;

/** Highlight the lines to and from a box. */
function follow(/** @type {Element | null} */ node) {
  const drawing = graph();
  drawing?.classList.remove("following");
  drawing?.querySelectorAll(".on").forEach((each) => each.classList.remove("on"));
  const id = /** @type {SVGElement | null} */ (node)?.dataset.id;
  if (!drawing || id === undefined) return;
  const edges = /** @type {SVGElement[]} */ ([...drawing.querySelectorAll("path.edge")]);
  const boxes = new Map([...drawing.querySelectorAll(".node")].map((each) => [/** @type {SVGElement} */ (each).dataset.id, each]));
  for (const [near, far] of [["to", "from"], ["from", "to"]]) {
    const [found, edge] = [new Set([id]), [id]];
    while (edge.length) {
      const at = edge.pop();
      for (const line of edges) {
        if (line.dataset[near] !== at) continue;
        line.classList.add("on");
        const next = line.dataset[far] ?? "";
        if (!found.has(next)) { found.add(next); edge.push(next); }
      }
    }
    found.forEach((each) => boxes.get(each)?.classList.add("on"));
  }
  drawing.classList.add("following");
}

const nodeOf = (/** @type {Event} */ event) => /** @type {Element | null} */ (/** @type {Element} */ (event.target).closest?.(".node") ?? null);
part.addEventListener("mouseover", (event) => follow(nodeOf(event)));
part.addEventListener("focusin", (event) => follow(nodeOf(event)));
part.addEventListener("focusout", () => follow(null));

/** Move the diagram by dragging its background. */
let from = /** @type {{x: number, y: number, left: number, top: number} | null} */ (null);
part.addEventListener("pointerdown", (event) => {
  const area = map();
  if (!area?.contains(/** @type {Node} */ (event.target)) || event.button || nodeOf(event)) return;
  from = { x: event.clientX, y: event.clientY, left: area.scrollLeft, top: document.documentElement.scrollTop };
  area.classList.add("panning");
});
addEventListener("pointermove", (event) => {
  const area = map();
  if (!from || !area) return;
  area.scrollLeft = from.left - (event.clientX - from.x);
  document.documentElement.scrollTop = from.top - (event.clientY - from.y);
});
addEventListener("pointerup", () => { from = null; map()?.classList.remove("panning"); });

/** Zoom with Ctrl and the wheel, or with + and -; 0 resets the zoom. */
function zoom(/** @type {number} */ by) {
  const drawing = graph();
  if (!drawing) return;
  scale = by ? Math.max(0.3, Math.min(3, scale * by)) : 1;
  const [, , width, height] = (drawing.getAttribute("viewBox") ?? "").split(" ").map(Number);
  drawing.classList.toggle("fits", scale === 1 && width <= 1700);
  drawing.setAttribute("width", String(Math.round(width * scale)));
  drawing.setAttribute("height", String(Math.round(height * scale)));
}
part.addEventListener("wheel", (event) => {
  if (!event.ctrlKey || !map()?.contains(/** @type {Node} */ (event.target))) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
}, { passive: false });
document.addEventListener("keydown", (event) => {
  if (/** @type {HTMLElement} */ (event.target).matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+") zoom(1.15);
  if (event.key === "-") zoom(1 / 1.15);
  if (event.key === "0") zoom(0);
});

/** Scroll the central box to the middle. */
const here = graph()?.querySelector("[aria-current]");
const area = map();
if (here && area && area.scrollWidth > area.clientWidth) {
  const [box, frame] = [here.getBoundingClientRect(), area.getBoundingClientRect()];
  area.scrollLeft += box.left + box.width / 2 - frame.left - frame.width / 2;
}

/** Update the changed parts. Position, zoom and the selected box stay. Nothing changes while a user is dragging or typing. */
live(part, (fresh) => {
  if (from || document.activeElement?.matches("#bar input, #bar select")) return;
  const left = map()?.scrollLeft ?? 0;
  const active = /** @type {SVGElement | null} */ (document.activeElement?.closest(".node"))?.dataset.id;
  part.replaceChildren(...fresh.childNodes);
  if (scale !== 1) zoom(1);
  const moved = map();
  if (moved) moved.scrollLeft = left;
  if (active !== undefined) /** @type {SVGElement | null} */ (part.querySelector(`.node[data-id="${CSS.escape(active)}"]`))?.focus();
});
