// @ts-check
// The grid with keyboard and mouse: one batch is selected, a drawer shows its details, and lines show the batches that it waits for.
// Adjacent labels in one state share a cell, so a label is found by counting columns.
import { gone, live } from "./live.js";

const part = /** @type {HTMLElement} */ (document.getElementById("live"));
const scroll = () => /** @type {HTMLElement} */ (document.getElementById("scroll"));
const grid = () => /** @type {HTMLTableElement | null} */ (document.getElementById("grid"));
const drawer = () => /** @type {HTMLElement} */ (document.getElementById("drawer"));
/** The selected batch, by table name and column, so that it stays selected when the grid is drawn again. */
let chosen = /** @type {{table: string, column: number} | null} */ (null);
/** The other corner of a selected block of batches, if any. The first corner is the selected batch. */
let corner = /** @type {{table: string, column: number} | null} */ (null);
let pressed = "";
let requests = 0; // the number of drawers requested; only the response to the newest request is shown

const rows = () => [...(grid()?.querySelectorAll("tr[data-t]") ?? [])].filter((row) => row.checkVisibility()).map((row) => /** @type {HTMLTableRowElement} */ (row));
const heads = () => /** @type {HTMLElement[]} */ ([...(grid()?.tHead?.rows[1]?.cells ?? [])]).filter((cell) => cell.dataset.l);
const rowOf = (/** @type {string} */ table) => /** @type {HTMLTableRowElement | null} */ (grid()?.querySelector(`tr[data-t="${CSS.escape(table)}"]`) ?? null);
const isOne = (/** @type {HTMLElement} */ cell) => Boolean(cell.dataset.l) && !cell.dataset.l?.includes("..");
const isEmpty = (/** @type {HTMLElement} */ cell) => cell.classList[0] === "e";

/** The cell that covers a column, and the first column of that cell. */
function cellAt(/** @type {HTMLTableRowElement} */ row, /** @type {number} */ column) {
  let at = 0;
  for (const cell of row.cells) {
    if (cell.tagName !== "TD" || cell.classList.contains("z")) continue;
    if (column < at + cell.colSpan) return { cell, first: at };
    at += cell.colSpan;
  }
  return null;
}

/** The first column of a cell. */
function firstOf(/** @type {HTMLTableCellElement} */ cell) {
  let at = 0;
  for (const each of /** @type {HTMLTableRowElement} */ (cell.parentElement).cells) {
    if (each === cell) break;
    if (each.tagName === "TD") at += each.colSpan;
  }
  return at;
}

/** The labels of a column in a row: those of the cell if it is one batch, otherwise those of the column. */
function labelsOf(/** @type {HTMLTableCellElement} */ cell, /** @type {number} */ column) {
  return isOne(cell) ? (cell.dataset.l ?? "") : (heads()[column]?.dataset.l ?? cell.dataset.l ?? "");
}

/** The same labels for display: a day instead of an instant, if the column is a day. */
function wordsOf(/** @type {HTMLTableCellElement} */ cell, /** @type {number} */ column) {
  const head = heads()[column]?.dataset.l ?? "";
  return cell.colSpan > 1 || head.includes("..") ? labelsOf(cell, column) : head;
}

const stateOf = (/** @type {HTMLElement} */ cell) => isEmpty(cell) ? "nothing is due" : cell.classList[0].replaceAll("-", " ");

function choose(/** @type {HTMLTableRowElement} */ row, /** @type {number} */ column, open = false) {
  const found = cellAt(row, column);
  if (!found) return;
  chosen = { table: row.dataset.t ?? "", column };
  corner = null;
  place(row, found.cell, isOne(found.cell) ? found.first : column);
  trace(found.cell);
  row.scrollIntoView({ block: "nearest" });
  reveal(column);
  const alike = found.cell.colSpan > 1 && !isOne(found.cell) && !isEmpty(found.cell) ? `, one of ${found.cell.colSpan} alike` : "";
  const where = document.getElementById("where");
  if (where) where.textContent = `${row.dataset.t} @ ${wordsOf(found.cell, column)}: ${stateOf(found.cell)}${alike}`;
  if (!open) return;
  if (isEmpty(found.cell)) { if (!drawer().hidden) shut(); }
  else void show(`/batches/${encodeURIComponent(row.dataset.t ?? "")}/${encodeURIComponent(labelsOf(found.cell, column))}`);
}

/** Draw the ring around one batch. */
function place(/** @type {HTMLElement} */ row, /** @type {HTMLTableCellElement} */ cell, /** @type {number} */ column) {
  const ring = /** @type {HTMLElement} */ (document.getElementById("ring"));
  const canvas = /** @type {HTMLElement} */ (ring.parentElement).getBoundingClientRect();
  const head = heads()[0].getBoundingClientRect();
  const count = isOne(cell) ? cell.colSpan : 1;
  ring.hidden = !row.checkVisibility();
  ring.style.width = `${head.width * count}px`;
  ring.style.height = "";
  ring.style.transform = `translate(${head.left - canvas.left + column * head.width}px, ${row.getBoundingClientRect().top - canvas.top}px)`;
}

/** Select all batches between the selected one and another as a block. */
function extend(/** @type {HTMLTableRowElement} */ row, /** @type {number} */ column, open = true) {
  if (!chosen) return choose(row, column);
  corner = { table: row.dataset.t ?? "", column };
  trace(null);
  frame();
  row.scrollIntoView({ block: "nearest" });
  reveal(column);
  const { names, labels, columns } = /** @type {NonNullable<ReturnType<typeof block>>} */ (block());
  const where = document.getElementById("where");
  if (where) where.textContent = `${names.length} ${names.length === 1 ? "table" : "tables"} @ ${labels.replace("..", " to ")}: ${columns} ${columns === 1 ? "column" : "columns"}`;
  const tables = names.map((name) => `\`${name}\``).join(" ");
  if (open) void show(`/batches?t=${encodeURIComponent(tables)}&l=${encodeURIComponent(labels)}`);
}

/** The rows, columns and labels of the block. */
function block() {
  const all = rows();
  const [one, other] = [chosen, corner].map((each) => all.findIndex((row) => row.dataset.t === each?.table));
  if (!chosen || !corner || one < 0 || other < 0) return null;
  const within = all.slice(Math.min(one, other), Math.max(one, other) + 1);
  const [first, last] = [Math.min(chosen.column, corner.column), Math.max(chosen.column, corner.column)];
  const [low, high] = [first, last].map((column) => heads()[column]?.dataset.l ?? "");
  const labels = first === last ? low : `${low.split("..")[0]}..${high.split("..").at(-1)}`;
  return { within, first, columns: last - first + 1, labels, names: within.map((row) => row.dataset.t ?? "") };
}

/** Draw the ring around the block. */
function frame() {
  const [ring, found] = [document.getElementById("ring"), block()];
  if (!ring || !found) return;
  const canvas = /** @type {HTMLElement} */ (ring.parentElement).getBoundingClientRect();
  const head = heads()[0].getBoundingClientRect();
  const [top, bottom] = [found.within[0].getBoundingClientRect(), found.within[found.within.length - 1].getBoundingClientRect()];
  ring.hidden = false;
  ring.style.width = `${head.width * found.columns}px`;
  ring.style.height = `${bottom.bottom - top.top - 2}px`;
  ring.style.transform = `translate(${head.left - canvas.left + found.first * head.width}px, ${top.top - canvas.top}px)`;
}

/** Update the position of the ring and the lines after the grid has changed. */
function again() {
  const row = chosen && rowOf(chosen.table);
  const found = row && chosen && cellAt(row, chosen.column);
  const ring = document.getElementById("ring");
  if (corner && block()) frame();
  else if (row && chosen && found) place(row, found.cell, isOne(found.cell) ? found.first : chosen.column);
  else if (ring) ring.hidden = true;
  trace(found && !corner && !drawer().hidden ? found.cell : null);
  mark();
}

/** Scroll until a column is visible between the names and the column of freshness, which do not scroll. */
function reveal(/** @type {number} */ column) {
  const [area, head, row] = [scroll(), heads()[column], grid()?.querySelector("tr[data-t]")];
  if (!head || !row) return;
  const names = row.querySelector("th")?.getBoundingClientRect().right ?? 0;
  const fresh = row.querySelector(".z")?.getBoundingClientRect().left ?? area.getBoundingClientRect().right;
  const box = head.getBoundingClientRect();
  if (box.right > fresh) area.scrollLeft += box.right - fresh + 2;
  else if (box.left < names) area.scrollLeft -= names - box.left + 2;
}

/** Fade all cells except those that wait for the same cause. */
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

/** Show a page in the drawer; with `enter`, move the keyboard focus into it. */
async function show(/** @type {string} */ address, enter = false) {
  const panel = drawer();
  if (panel.hidden) {
    panel.hidden = false;
    scroll().scrollLeft = 1e6;
    if (chosen) reveal(chosen.column);
    if (chosen) rowOf(chosen.table)?.scrollIntoView({ block: "nearest" });
  }
  const mine = ++requests;
  panel.setAttribute("aria-busy", "true");
  const text = await content(address);
  if (mine !== requests) return;
  panel.innerHTML = text;
  panel.removeAttribute("aria-busy");
  panel.dataset.address = address;
  settle(enter);
}

async function content(/** @type {string} */ address) {
  try {
    return await (await fetch(address, { headers: { "HX-Request": "true" } })).text();
  } catch {
    return `<div class="head"><h2 tabindex="-1">Unknown</h2><button type="button" class="btn shut" aria-label="Close">✕</button></div>${gone}`;
  }
}

/** Activate the scripts and forms of the new content of the drawer. */
function settle(/** @type {boolean} */ enter) {
  const panel = drawer();
  // @ts-ignore
  globalThis.htmx?.process(panel);
  panel.setAttribute("aria-label", panel.querySelector("form") ? "Plan" : "Batch");
  mark();
  if (enter) { panel.scrollTop = 0; panel.querySelector("h2")?.focus({ preventScroll: true }); }
}

/** Write the steps of a plan into the grid. */
function mark() {
  grid()?.querySelectorAll("i.step").forEach((each) => each.remove());
  const starts = heads().map((head) => head.dataset.s ?? "");
  const width = heads()[0]?.getBoundingClientRect().width ?? 0;
  drawer().querySelectorAll("[data-step]").forEach((item) => {
    const { t = "", step = "", labels = "" } = /** @type {HTMLElement} */ (item).dataset;
    for (const label of labels.split(" ")) {
      const cell = cellOf(`${t}@${label}`);
      if (!cell) continue;
      const first = firstOf(cell);
      const at = Math.max(first, Math.min(first + cell.colSpan - 1, starts.findLastIndex((start) => start <= label)));
      if (!isOne(cell) && cell.querySelector(`[data-at="${at}"]`)) continue;
      const sign = document.createElement("i");
      sign.className = "step";
      sign.textContent = step;
      sign.dataset.at = String(at);
      sign.style.left = isOne(cell) ? "0" : `${(at - first) * width}px`;
      sign.style.width = `${isOne(cell) ? width * cell.colSpan : width}px`;
      cell.append(sign);
    }
  });
}

/** Close the drawer. The batch stays selected. */
function shut() {
  const panel = drawer();
  requests += 1;
  panel.hidden = true;
  panel.replaceChildren();
  mark();
  trace(null);
}

function close() {
  if (!drawer().hidden) shut();
  else { const ring = document.getElementById("ring"); if (ring) ring.hidden = true; chosen = corner = null; trace(null); }
  grid()?.focus({ preventScroll: true });
}

function move(/** @type {number} */ down, /** @type {number} */ right, jump = false, widen = false) {
  const all = rows();
  if (!all.length) return;
  const last = heads().length - 1;
  if (widen && chosen) {
    const from = corner ?? chosen;
    const index = all.findIndex((row) => row.dataset.t === from.table);
    const goal = all[Math.max(0, Math.min(all.length - 1, index + down))] ?? all[0];
    return extend(goal, Math.max(0, Math.min(last, from.column + right)));
  }
  const row = chosen ? rowOf(chosen.table) : null;
  if (!row || !chosen) return choose(all[0], last);
  const goal = all[Math.max(0, Math.min(all.length - 1, all.indexOf(row) + down))] ?? all[0];
  let column = Math.max(0, Math.min(last, chosen.column + right));
  const found = cellAt(goal, chosen.column);
  if (right && found && (jump || isOne(found.cell))) column = Math.max(0, Math.min(last, right > 0 ? found.first + found.cell.colSpan : found.first - 1));
  choose(goal, column, !drawer().hidden);
}

/** Select the next cell that failed or is held, and open it. */
function next() {
  const bad = [...(grid()?.querySelectorAll("td.failed, td.held") ?? [])].map((cell) => /** @type {HTMLTableCellElement} */ (cell));
  if (!bad.length) return;
  const row = chosen && rowOf(chosen.table);
  const here = row && chosen ? cellAt(row, chosen.column)?.cell : null;
  chooseCell(bad[(bad.indexOf(/** @type {any} */ (here)) + 1) % bad.length]);
}

function chooseCell(/** @type {HTMLTableCellElement | null} */ cell) {
  const row = /** @type {HTMLTableRowElement | null} */ (cell?.parentElement ?? null);
  if (!cell || !row) return;
  if (row.hidden) press(pressed);
  fold(row.closest("tbody"), false);
  choose(row, firstOf(cell), true);
}

function fold(/** @type {HTMLElement | null} */ layer, /** @type {boolean} */ isClosed) {
  layer?.classList.toggle("closed", isClosed);
  layer?.querySelector(".fold")?.setAttribute("aria-expanded", String(!isClosed));
  again();
}

function press(/** @type {string} */ state) {
  pressed = pressed === state ? "" : state;
  narrow();
  again();
}

/** Show only the rows that have a cell in the pressed state, also in closed layers. Show all rows if no state is pressed. */
function narrow() {
  document.querySelectorAll(".chip").forEach((chip) => chip.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (chip).dataset.state === pressed)));
  grid()?.classList.toggle("narrow", Boolean(pressed));
  for (const layer of grid()?.tBodies ?? []) {
    let count = 0;
    for (const row of layer.querySelectorAll("tr[data-t]")) count += Number(!(/** @type {HTMLElement} */ (row).hidden = Boolean(pressed) && !row.querySelector(`td.${CSS.escape(pressed)}`)));
    layer.hidden = Boolean(pressed) && !count;
  }
}

part.addEventListener("click", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const chip = /** @type {HTMLElement | null} */ (target.closest(".chip"));
  if (chip) return press(chip.dataset.state ?? "");
  const layer = target.closest(".fold")?.closest("tbody");
  if (layer) return fold(layer, !layer.classList.contains("closed"));
  if (target.closest(".shut")) return close();
  const inDrawer = /** @type {HTMLAnchorElement | null} */ (target.closest("#drawer a[data-open], #drawer a[data-plan]"));
  if (inDrawer && !event.ctrlKey && !event.metaKey) { event.preventDefault(); return void show(inDrawer.getAttribute("href") ?? "/", true); }
  const cell = /** @type {HTMLTableCellElement | null} */ (target.closest("#grid tbody td:not(.z)"));
  const row = /** @type {HTMLTableRowElement | null} */ (cell?.closest("tr[data-t]") ?? null);
  if (!cell || !row || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  grid()?.focus({ preventScroll: true });
  if (wasDragged) return;
  if (event.shiftKey) extend(row, columnOf(event));
  else choose(row, columnOf(event), true);
});

/** The column under the pointer. */
function columnOf(/** @type {MouseEvent} */ event) {
  const box = heads()[0].getBoundingClientRect();
  return Math.max(0, Math.min(heads().length - 1, Math.floor((event.clientX - box.left) / box.width)));
}

// Selects a block with the mouse, from the cell where the button is pressed to the cell where it is released.
let wasDragged = false; // the click event after a drag selects nothing
const rowUnder = (/** @type {Event} */ event) => {
  const cell = /** @type {HTMLElement} */ (event.target).closest?.("#grid tbody td:not(.z)");
  return /** @type {HTMLTableRowElement | null} */ (cell?.closest("tr[data-t]") ?? null);
};
let isDragging = false;
let start = /** @type {{table: string, column: number} | null} */ (null);
part.addEventListener("dragstart", (event) => { if (rowUnder(event)) event.preventDefault(); });
part.addEventListener("pointerdown", (event) => {
  wasDragged = false;
  const row = rowUnder(event);
  const isPlain = event.button === 0 && event.pointerType === "mouse" && !event.shiftKey && !event.ctrlKey && !event.metaKey;
  start = row && isPlain ? { table: row.dataset.t ?? "", column: columnOf(event) } : null;
});
part.addEventListener("pointermove", (event) => {
  const row = start && event.buttons === 1 ? rowUnder(event) : null;
  if (!row || !start) return;
  const column = columnOf(event);
  const here = isDragging && corner ? corner : start;
  if (here.table === row.dataset.t && here.column === column) return;
  [isDragging, chosen] = [true, start];
  extend(row, column, false);
});
document.addEventListener("pointerup", () => {
  const row = isDragging && corner ? rowOf(corner.table) : null;
  [start, isDragging] = [null, false];
  if (!row || !corner) return;
  wasDragged = true;
  grid()?.focus({ preventScroll: true });
  extend(row, corner.column);
});

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.closest("dialog") || event.altKey || event.metaKey) return;
  if (event.key === "Escape" && (!drawer().hidden || !target.matches("input"))) return close();
  if (target.matches("input, textarea, select")) return;
  const onGrid = target === grid() || target === document.body || target === scroll();
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (step && onGrid) { event.preventDefault(); return move(step[0], step[1], event.ctrlKey, event.shiftKey); }
  if (event.ctrlKey) return;
  if (event.key === "f") return next();
  if (event.key === "Enter" && onGrid && chosen) {
    if (!drawer().hidden) return settle(true); // it is open already: move the focus into it
    const row = rowOf(chosen.table);
    if (row) choose(row, chosen.column, true);
  }
  if (event.key === "w" && chosen) {
    const row = rowOf(chosen.table);
    const cause = row && cellAt(row, chosen.column)?.cell.dataset.c;
    if (cause) chooseCell(/** @type {HTMLTableCellElement | null} */ (cellOf(cause)));
  }
  if (event.key === "p") /** @type {HTMLElement | null} */ (drawer().querySelector("[data-plan]"))?.click();
});

document.addEventListener("htmx:after:swap", () => settle(true));
document.addEventListener("htmx:error", () => drawer().querySelector("form")?.insertAdjacentHTML("beforebegin", gone));
window.addEventListener("resize", again);
scroll().scrollLeft = 1e6;

/** Replace the rows that have changed. The other rows, the drawer and the scroll position stay. */
live(part, (fresh) => {
  const [table, other] = [grid(), /** @type {HTMLTableElement | null} */ (fresh.querySelector("table.g"))];
  for (const id of ["verdict", "bar"]) {
    const [old, made] = [document.getElementById(id), fresh.querySelector(`#${id}`)];
    const isTyping = old?.contains(document.activeElement);
    if (old && made && !isTyping && old.outerHTML !== made.outerHTML) old.replaceWith(made);
  }
  const named = (/** @type {HTMLTableElement} */ of) => `${of.tHead?.innerHTML}${[...of.querySelectorAll("tr[data-t]")].map((row) => /** @type {HTMLElement} */ (row).dataset.t)}`;
  if (table && other && named(table) === named(other)) takeRows(table, other);
  else takeAll(fresh);
  narrow();
  again();
  void refresh();
});

function takeRows(/** @type {HTMLTableElement} */ table, /** @type {HTMLTableElement} */ other) {
  table.querySelectorAll("i.step").forEach((each) => each.remove());
  trace(null);
  for (const made of other.querySelectorAll("tr[data-t]")) {
    const old = rowOf(/** @type {HTMLElement} */ (made).dataset.t ?? "");
    if (!old || old.innerHTML === made.innerHTML) continue;
    const isIn = old.querySelector("th")?.contains(document.activeElement);
    old.innerHTML = made.innerHTML;
    if (isIn) old.querySelector("a")?.focus({ preventScroll: true });
  }
  for (const made of other.tBodies) {
    const old = table.querySelector(`tbody[data-layer="${CSS.escape(made.dataset.layer ?? "")}"] .L .z`);
    const label = made.querySelector(".L .z");
    if (old && label && old.innerHTML !== label.innerHTML) old.innerHTML = label.innerHTML;
  }
}

/** Draw the whole grid again, for other columns or tables. The batch stays selected, and layers stay closed. */
function takeAll(/** @type {HTMLElement} */ fresh) {
  const [old, made] = [scroll(), fresh.querySelector("#scroll")];
  if (!made) return;
  const label = chosen && heads()[chosen.column]?.dataset.l;
  const hadKeys = document.activeElement === grid();
  const fromEnd = old.scrollWidth - old.scrollLeft;
  const folded = new Map([...(grid()?.tBodies ?? [])].map((layer) => [layer.dataset.layer, layer.classList.contains("closed")]));
  old.replaceWith(made);
  for (const layer of grid()?.tBodies ?? []) fold(layer, folded.get(layer.dataset.layer) ?? layer.classList.contains("closed"));
  scroll().scrollLeft = scroll().scrollWidth - fromEnd;
  const column = heads().findIndex((head) => head.dataset.l === label);
  if (chosen) chosen = column < 0 ? null : { ...chosen, column };
  corner = null;
  if (hadKeys) grid()?.focus({ preventScroll: true });
}

/** Refresh the batch in the drawer, unless a user is typing there. */
async function refresh() {
  const panel = drawer();
  const address = panel.dataset.address ?? "";
  if (panel.hidden || !address.startsWith("/batches") || panel.contains(document.activeElement) || panel.hasAttribute("aria-busy")) return;
  const mine = requests;
  const text = await content(address);
  if (mine !== requests || panel.contains(document.activeElement)) return;
  panel.innerHTML = text;
  settle(false);
}
