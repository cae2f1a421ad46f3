// @ts-check
// The grid under keys and mouse: one batch is chosen, its drawer opens beside it, what it waits for is traced.
// Neighbours in one state are one cell; which label is meant is counted from the columns.
import { live } from "./ui.js";

const part = /** @type {HTMLElement} */ (document.getElementById("live"));
const scroll = () => /** @type {HTMLElement} */ (document.getElementById("scroll"));
const grid = () => /** @type {HTMLTableElement | null} */ (document.getElementById("grid"));
const drawer = () => /** @type {HTMLElement} */ (document.getElementById("drawer"));
/** The chosen batch, by its table's name and its column, so that it survives a grid that is drawn anew. */
let chosen = /** @type {{table: string, column: number} | null} */ (null);
let pressed = "";

const rows = () => [...(grid()?.querySelectorAll("tr[data-t]") ?? [])].filter((row) => row.checkVisibility()).map((row) => /** @type {HTMLTableRowElement} */ (row));
const heads = () => /** @type {HTMLElement[]} */ ([...(grid()?.tHead?.rows[1]?.cells ?? [])]).filter((cell) => cell.dataset.l);
const rowOf = (/** @type {string} */ table) => /** @type {HTMLTableRowElement | null} */ (grid()?.querySelector(`tr[data-t="${CSS.escape(table)}"]`) ?? null);

/** The cell over a column, and the column that it begins with. */
function cellAt(/** @type {HTMLTableRowElement} */ row, /** @type {number} */ column) {
  let at = 0;
  for (const cell of row.cells) {
    if (cell.tagName !== "TD" || cell.classList.contains("z")) continue;
    if (column < at + cell.colSpan) return { cell, first: at };
    at += cell.colSpan;
  }
  return null;
}

/** The labels that are meant by a column of a row: the cell's own where it is one batch, else the column's. */
function labelsOf(/** @type {HTMLTableCellElement} */ cell, /** @type {number} */ column) {
  const own = cell.dataset.l ?? "";
  return own && !own.includes("..") ? own : (heads()[column]?.dataset.l ?? own);
}

const stateOf = (/** @type {HTMLElement} */ cell) => cell.classList[0] === "e" ? "nothing is due" : cell.classList[0].replaceAll("-", " ");

function choose(/** @type {HTMLTableRowElement} */ row, /** @type {number} */ column, open = false) {
  const found = cellAt(row, column);
  if (!found) return;
  chosen = { table: row.dataset.t ?? "", column };
  const ring = /** @type {HTMLElement} */ (document.getElementById("ring"));
  const box = row.getBoundingClientRect();
  const canvas = /** @type {HTMLElement} */ (ring.parentElement).getBoundingClientRect();
  const own = found.cell.dataset.l ?? "";
  const wide = found.cell.colSpan > 1 && own && !own.includes("..");
  const width = heads()[0].getBoundingClientRect().width;
  const start = heads()[0].getBoundingClientRect().left - canvas.left;
  ring.hidden = false;
  ring.style.width = `${wide ? width * found.cell.colSpan : width}px`;
  ring.style.transform = `translate(${start + (wide ? found.first : column) * width}px, ${box.top - canvas.top}px)`;
  trace(found.cell);
  row.scrollIntoView({ block: "nearest" });
  reveal(column);
  const alike = found.cell.colSpan > 1 && !wide ? `, one of ${found.cell.colSpan} alike` : "";
  const where = document.getElementById("where");
  const words = wide ? labelsOf(found.cell, column) : heads()[column].dataset.l;
  if (where) where.textContent = `${row.dataset.t} @ ${words}: ${stateOf(found.cell)}${alike}`;
  if (open && found.cell.classList[0] !== "e") show(`/batches/${encodeURIComponent(row.dataset.t ?? "")}/${encodeURIComponent(labelsOf(found.cell, column))}`);
}

/** Scroll so that a column lies between the names and what is fresh, which stay in place. */
function reveal(/** @type {number} */ column) {
  const [area, head, row] = [scroll(), heads()[column], grid()?.querySelector("tr[data-t]")];
  if (!head || !row) return;
  const names = row.querySelector("th")?.getBoundingClientRect().right ?? 0;
  const fresh = row.querySelector(".z")?.getBoundingClientRect().left ?? area.getBoundingClientRect().right;
  const box = head.getBoundingClientRect();
  if (box.right > fresh) area.scrollLeft += box.right - fresh + 2;
  else if (box.left < names) area.scrollLeft -= names - box.left + 2;
}

/** All that waits for the same cause stays as it is; everything else fades. */
function trace(/** @type {HTMLElement | null} */ cell) {
  const table = grid();
  table?.querySelectorAll(".cause, .on").forEach((each) => each.classList.remove("cause", "on"));
  table?.classList.remove("tracing");
  const cause = cell?.dataset.c;
  if (!table || !cause) return;
  table.classList.add("tracing");
  table.querySelectorAll(`[data-c="${CSS.escape(cause)}"]`).forEach((each) => each.parentElement?.classList.add("on"));
  const root = cellOf(cause);
  root?.classList.add("cause");
  root?.parentElement?.classList.add("on");
}

/** The cell of `table@label`. */
function cellOf(/** @type {string} */ text) {
  const [table, label] = [text.slice(0, text.lastIndexOf("@")), text.slice(text.lastIndexOf("@") + 1)];
  for (const cell of rowOf(table)?.cells ?? []) {
    const [low, high] = (cell.dataset.l ?? "").split("..");
    if (low && low <= label && label <= (high ?? low)) return cell;
  }
  return null;
}

async function show(/** @type {string} */ address) {
  const panel = drawer();
  if (panel.hidden) {
    panel.hidden = false;
    scroll().scrollLeft = 1e6;
    if (chosen) reveal(chosen.column);
  }
  panel.setAttribute("aria-busy", "true");
  const answer = await fetch(address, { headers: { "HX-Request": "true" } });
  panel.innerHTML = await answer.text();
  panel.removeAttribute("aria-busy");
  // @ts-ignore
  globalThis.htmx?.process(panel);
  panel.dataset.address = address;
  mark();
}

/** Write the steps of a plan into the grid. */
function mark() {
  grid()?.querySelectorAll("td.step").forEach((cell) => cell.classList.remove("step"));
  drawer().querySelectorAll("[data-step]").forEach((item) => {
    const { t = "", step = "", labels = "" } = /** @type {HTMLElement} */ (item).dataset;
    for (const label of labels.split(" ")) {
      const cell = cellOf(`${t}@${label}`);
      if (!cell) continue;
      cell.classList.add("step");
      cell.dataset.n = step;
    }
  });
}

function close() {
  const panel = drawer();
  if (!panel.hidden) { panel.hidden = true; panel.replaceChildren(); mark(); }
  else { const ring = document.getElementById("ring"); if (ring) ring.hidden = true; chosen = null; }
  trace(null);
  grid()?.focus({ preventScroll: true });
}

function move(/** @type {number} */ down, /** @type {number} */ right, jump = false) {
  const all = rows();
  if (!all.length) return;
  const last = heads().length - 1;
  let row = chosen ? rowOf(chosen.table) : null;
  if (!row || !chosen) return choose(all[0], last);
  row = all[Math.max(0, Math.min(all.length - 1, all.indexOf(row) + down))] ?? all[0];
  let column = Math.max(0, Math.min(last, chosen.column + right));
  const found = cellAt(row, chosen.column);
  if (jump && right && found) column = Math.max(0, Math.min(last, right > 0 ? found.first + found.cell.colSpan : found.first - 1));
  choose(row, column, !drawer().hidden);
}

/** Choose the next cell that failed, and open it. */
function next() {
  const bad = [...(grid()?.querySelectorAll("td.failed") ?? [])].map((cell) => /** @type {HTMLTableCellElement} */ (cell));
  if (!bad.length) return;
  const here = chosen && rowOf(chosen.table) ? cellAt(/** @type {HTMLTableRowElement} */ (rowOf(chosen.table)), chosen.column)?.cell : null;
  chooseCell(bad[(bad.indexOf(/** @type {any} */ (here)) + 1) % bad.length]);
}

function chooseCell(/** @type {HTMLTableCellElement | null} */ cell) {
  const row = /** @type {HTMLTableRowElement | null} */ (cell?.parentElement ?? null);
  if (!cell || !row) return;
  let at = 0;
  for (const each of row.cells) {
    if (each === cell) break;
    if (each.tagName === "TD") at += each.colSpan;
  }
  choose(row, at, true);
}

function press(/** @type {string} */ state) {
  pressed = pressed === state ? "" : state;
  narrow();
}

/** Show the rows that have a cell in the pressed state; all where none is pressed. */
function narrow() {
  document.querySelectorAll(".chip").forEach((chip) => chip.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (chip).dataset.state === pressed)));
  for (const row of grid()?.querySelectorAll("tr[data-t]") ?? []) /** @type {HTMLElement} */ (row).hidden = Boolean(pressed) && !row.querySelector(`td.${pressed}`);
}

part.addEventListener("click", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const chip = /** @type {HTMLElement | null} */ (target.closest(".chip"));
  if (chip) return press(chip.dataset.state ?? "");
  const fold = target.closest(".fold");
  if (fold) {
    const isClosed = fold.closest("tbody")?.classList.toggle("closed");
    return fold.setAttribute("aria-expanded", String(!isClosed));
  }
  if (target.closest(".shut")) return close();
  const inDrawer = /** @type {HTMLAnchorElement | null} */ (target.closest("#drawer a[data-open], #drawer a[data-plan]"));
  if (inDrawer && !event.ctrlKey && !event.metaKey) { event.preventDefault(); return void show(inDrawer.getAttribute("href") ?? "/"); }
  const cell = /** @type {HTMLTableCellElement | null} */ (target.closest("#grid tbody td:not(.z)"));
  const row = /** @type {HTMLTableRowElement | null} */ (cell?.closest("tr[data-t]") ?? null);
  if (!cell || !row || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const box = heads()[0].getBoundingClientRect();
  choose(row, Math.max(0, Math.min(heads().length - 1, Math.floor((event.clientX - box.left) / box.width))), true);
});

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.matches("input, textarea, select") || target.closest("dialog") || event.altKey || event.metaKey) return;
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (step && (target === grid() || target === document.body || target === scroll())) { event.preventDefault(); return move(step[0], step[1], event.ctrlKey); }
  if (event.ctrlKey) return;
  if (event.key === "Escape") return close();
  if (event.key === "f") return next();
  if (event.key === "Enter" && target === grid() && chosen) { const row = rowOf(chosen.table); if (row) choose(row, chosen.column, true); return; }
  if (event.key === "w" && chosen) {
    const row = rowOf(chosen.table);
    const cause = row && cellAt(row, chosen.column)?.cell.dataset.c;
    if (cause) chooseCell(/** @type {HTMLTableCellElement | null} */ (cellOf(cause)));
  }
  if (event.key === "p") /** @type {HTMLElement | null} */ (drawer().querySelector("[data-plan]"))?.click();
});

document.addEventListener("htmx:after:swap", mark);
scroll().scrollLeft = 1e6;

/** Take the rows that have changed, and leave the others, the drawer and the scroll where they are. */
live(part, (fresh) => {
  const table = grid();
  const other = fresh.querySelector("table.g");
  for (const id of ["verdict", "bar"]) {
    const [old, made] = [document.getElementById(id), fresh.querySelector(`#${id}`)];
    const isTyping = old?.contains(document.activeElement) && document.activeElement?.matches("input");
    if (old && made && !isTyping && old.outerHTML !== made.outerHTML) old.replaceWith(made);
  }
  const same = table && other && table.tHead?.innerHTML === /** @type {HTMLTableElement} */ (other).tHead?.innerHTML
    && table.querySelectorAll("tr").length === other.querySelectorAll("tr").length;
  if (!same) {
    const [old, made] = [document.querySelector(".wrap"), fresh.querySelector(".wrap")];
    if (old && made && drawer().hidden) { old.replaceWith(made); scroll().scrollLeft = 1e6; chosen = null; }
  } else {
    for (const made of other.querySelectorAll("tr[data-t]")) {
      const old = rowOf(/** @type {HTMLElement} */ (made).dataset.t ?? "");
      if (old && old.innerHTML !== made.innerHTML) old.innerHTML = made.innerHTML;
    }
    for (const made of other.querySelectorAll("tbody")) {
      const old = table.querySelector(`tbody[data-layer="${CSS.escape(made.dataset.layer ?? "")}"] .L .z`);
      const said = made.querySelector(".L .z");
      if (old && said && old.textContent !== said.textContent) old.textContent = said.textContent;
    }
    mark();
  }
  narrow();
});
