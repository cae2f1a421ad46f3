// @ts-check
// Edits cells in the list of a form's rows by keyboard. The changed cells are a draft in this page: the server checks each,
// renders it, and saves all of them as one batch. Without this script the list is a table with links to its rows.

const PATIENCE = 30_000;
const grid = /** @type {HTMLTableElement} */ (document.getElementById("rows"));
const body = grid.tBodies[0];
const state = /** @type {HTMLElement} */ (document.getElementById("draft-state"));
const answers = /** @type {HTMLElement} */ (document.getElementById("draft-answers"));
const form = /** @type {HTMLFormElement} */ (document.getElementById("draft"));
const why = /** @type {HTMLInputElement} */ (document.getElementById("draft-why"));
/** The active cell, which is the only one that Tab reaches from outside. */
let active = body.rows[0].cells[0];
/** The field of the active cell while it is edited, the nodes that it replaces, and whether arrow keys end it. */
let editor = /** @type {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement | null} */ (null);
let replaced = /** @type {Node[]} */ ([]);
let isTyped = false;
let isInside = false; // Tab moves between cells, after any other key of the grid
let isSaving = false;
/** The changes that Ctrl-Z takes back: the cells, and their drafts before. */
const undone = /** @type {{cell: HTMLTableCellElement, text: string | undefined}[][]} */ ([]);

const cellsOf = (/** @type {ParentNode} */ part) => /** @type {HTMLTableCellElement[]} */ ([...part.querySelectorAll("td[data-f]")]);
const drafts = (/** @type {ParentNode} */ part = body) => cellsOf(part).filter((cell) => cell.dataset.d !== undefined);
const rowOf = (/** @type {HTMLElement} */ cell) => /** @type {HTMLTableRowElement} */ (cell.parentElement);
const textOf = (/** @type {HTMLElement} */ cell) => cell.dataset.d ?? cell.dataset.v ?? "";
const nameOf = (/** @type {HTMLElement} */ cell) => `${cell.dataset.f} of ${rowOf(cell).dataset.row}`;

/** Announce a text, followed by the size of the draft. */
function say(text = "") {
  const all = drafts();
  const rows = new Set(all.map(rowOf)).size;
  const count = all.length ? `${all.length} changed ${all.length === 1 ? "cell" : "cells"} in ${rows} ${rows === 1 ? "row" : "rows"}, not saved.` : "";
  state.textContent = [text, count].filter(Boolean).join(" ");
  form.hidden = !all.length;
}

/** Move to a cell of the grid, or as near to it as there is one. */
function go(/** @type {number} */ row, /** @type {number} */ column) {
  const to = body.rows[Math.max(0, Math.min(row, body.rows.length - 1))];
  activate(to.cells[Math.max(0, Math.min(column, to.cells.length - 1))]);
  active.focus();
}

function activate(/** @type {HTMLTableCellElement} */ cell) {
  active.tabIndex = -1;
  active.removeAttribute("aria-selected");
  active = cell;
  active.tabIndex = 0;
  active.setAttribute("aria-selected", "true");
}

const step = (/** @type {number} */ down, /** @type {number} */ right) => go(rowOf(active).sectionRowIndex + down, active.cellIndex + right);

/** Move to the next cell in the order of reading. Return false at the end of the grid. */
function next(/** @type {number} */ by) {
  const all = [...body.querySelectorAll("td")];
  const to = all[all.indexOf(active) + by];
  if (to) go(rowOf(to).sectionRowIndex, to.cellIndex);
  return Boolean(to);
}

/** Links in cells are not reached by Tab: Enter follows the one of the key. */
const tame = (/** @type {ParentNode} */ part) => part.querySelectorAll("td a").forEach((link) => { /** @type {HTMLElement} */ (link).tabIndex = -1; });

function edit(/** @type {boolean} */ typed) {
  const found = /** @type {HTMLTemplateElement | undefined} */ ([...document.querySelectorAll("template")].find((each) => each.dataset.editor === active.dataset.f));
  if (!found || active.ariaReadOnly === "true") return say(`${active.dataset.f ?? "It"} cannot be changed here.`);
  editor = /** @type {HTMLInputElement} */ (/** @type {Element} */ (found.content.firstElementChild).cloneNode(true));
  editor.ariaLabel = nameOf(active);
  isTyped = typed;
  const text = typed && !(editor instanceof HTMLSelectElement) ? "" : textOf(active);
  editor.value = text;
  if (editor.value !== text && editor instanceof HTMLSelectElement) editor.add(new Option(text, text, true, true));
  replaced = [...active.childNodes];
  active.replaceChildren(editor);
  /** @type {any} */ (window).htmx.process(editor);
  editor.focus();
  if (!(editor instanceof HTMLSelectElement)) editor.setSelectionRange(text.length, text.length);
}

/** End the editing of the active cell: keep the text as a draft, or forget it. */
function end(/** @type {boolean} */ keeps) {
  if (!editor) return;
  const text = editor.value;
  editor = null;
  active.replaceChildren(...replaced);
  if (keeps) put([active], [text]);
}

/** Set the texts of cells, as a change that Ctrl-Z takes back. */
function put(/** @type {HTMLTableCellElement[]} */ cells, /** @type {string[]} */ texts, isUndo = false) {
  const changed = cells.map((cell, at) => ({ cell, text: cell.dataset.d, to: texts[at] })).filter(({ cell, to }) => to !== textOf(cell));
  if (!changed.length) return;
  if (!isUndo) undone.push(changed);
  for (const { cell, to } of changed) paint(cell, to === cell.dataset.v ? undefined : to);
  say();
  void check([...new Set(changed.map(({ cell }) => rowOf(cell)))]);
}

/** Show a text until the server has checked and rendered it. */
function paint(/** @type {HTMLTableCellElement} */ cell, /** @type {string | undefined} */ text) {
  if (text === undefined) delete cell.dataset.d;
  else cell.dataset.d = text;
  cell.classList.toggle("is-draft", text !== undefined);
  cell.removeAttribute("aria-invalid");
  cell.textContent = textOf(cell);
}

/** Send rows with their drafts, and show the cells that come back. Return the answer, or null if there was none. */
async function send(/** @type {HTMLTableRowElement[]} */ rows, /** @type {"check" | "save"} */ action) {
  const sent = rows.map((row) => ({ key: row.dataset.row, version: row.dataset.version, texts: new Map(drafts(row).map((cell) => [cell.dataset.f, cell.dataset.d])) }));
  const posted = sent.map(({ key, version, texts }) => ({ key, version, cells: Object.fromEntries(texts) }));
  const fields = new URLSearchParams({ rows: JSON.stringify(posted), do: action, why: why.value });
  try {
    const answer = await fetch(grid.dataset.cells ?? "", { method: "POST", body: fields, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const said = page.getElementById("said");
    if (!said) return { status: answer.status, said: `The server refused it: ${page.querySelector(".err, main, body")?.textContent?.trim() || answer.status}`, page };
    sent.forEach(({ key, version, texts }, at) => {
      const fresh = [...page.querySelectorAll("tr")].find((row) => row.dataset.row === key);
      if (!fresh || rows[at].dataset.version !== version) return; // it was saved after this check began
      rows[at].dataset.version = fresh.dataset.version;
      const own = new Map(cellsOf(rows[at]).map((cell) => [cell.dataset.f, cell]));
      for (const cell of cellsOf(fresh)) {
        const to = own.get(cell.dataset.f);
        if (to) take(to, cell, texts.get(cell.dataset.f));
      }
    });
    tame(body);
    return { status: answer.status, said: said.textContent ?? "", page };
  } catch {
    return null;
  }
}

/** Show a cell as the server renders it, unless it was changed since it was sent. */
function take(/** @type {HTMLTableCellElement} */ cell, /** @type {HTMLTableCellElement} */ fresh, /** @type {string | undefined} */ sent) {
  cell.dataset.v = fresh.dataset.v;
  if (cell.dataset.d !== sent) {
    if (cell.dataset.d === cell.dataset.v) paint(cell, undefined);
    return;
  }
  for (const name of ["data-d", "class", "aria-invalid", "aria-readonly"]) {
    const value = fresh.getAttribute(name);
    if (value === null) cell.removeAttribute(name);
    else cell.setAttribute(name, value);
  }
  if (editor && cell === active) replaced = [...fresh.childNodes];
  else cell.replaceChildren(...fresh.childNodes);
}

const OFFLINE = "The server does not answer. Your changes are kept in this page.";

async function check(/** @type {HTMLTableRowElement[]} */ rows) {
  const answer = await send(rows, "check");
  if (!isSaving && (!answer || answer.said || drafts().length)) say(answer ? answer.said : OFFLINE);
}

async function save() {
  if (isSaving) return;
  const all = drafts();
  if (!all.length) return say("Nothing has changed.");
  if (!why.value.trim()) {
    say("State why the rows change, then press Enter.");
    return why.focus();
  }
  isSaving = true;
  say("Saving.");
  const answer = await send([...new Set(all.map(rowOf))], "save");
  isSaving = false;
  if (!answer) return say(`${OFFLINE} Save them again when it does: they are saved once.`);
  answers.replaceChildren(...(answer.page.getElementById("answers")?.childNodes ?? []));
  const isDone = answer.status < 300;
  if (isDone) {
    undone.length = 0;
    why.value = "";
  }
  const wrong = /** @type {HTMLTableCellElement | null} */ (body.querySelector("td[aria-invalid]"));
  if (wrong && !isDone) activate(wrong);
  if (isDone || wrong) active.focus();
  say(answer.said);
}

function undo() {
  const last = undone.pop();
  if (!last) return say("There is no change to undo.");
  activate(last[0].cell);
  active.focus();
  put(last.map(({ cell }) => cell), last.map(({ cell, text }) => text ?? cell.dataset.v ?? ""), true);
}

/** The keys of a cell that is not edited. Return whether the key is one of these. */
function move(/** @type {KeyboardEvent} */ event) {
  const isFar = event.ctrlKey || event.metaKey;
  const far = isFar ? 1e6 : 1;
  if (event.key === "Tab") return isInside && next(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") {
    isInside = false;
    say("Tab leaves the table.");
    return true;
  }
  if (isFar && event.key.toLowerCase() === "z") return undo(), true;
  if (event.key === "ArrowUp") return step(-far, 0), true;
  if (event.key === "ArrowDown") return step(far, 0), true;
  if (event.key === "ArrowLeft") return step(0, -far), true;
  if (event.key === "ArrowRight") return step(0, far), true;
  if (event.key === "Home") return step(isFar ? -far : 0, -1e6), true;
  if (event.key === "End") return step(isFar ? far : 0, 1e6), true;
  if (event.key === "PageUp") return step(-10, 0), true;
  if (event.key === "PageDown") return step(10, 0), true;
  const link = active.ariaReadOnly === "true" ? active.querySelector("a") : null;
  if (event.key === "Enter" && link) return link.click(), true;
  if (event.key === "Enter" || event.key === "F2") return edit(false), true;
  if (event.key === "Delete" || event.key === "Backspace") {
    if (active.ariaReadOnly === "true" || !active.dataset.f) say(`${active.dataset.f ?? "It"} cannot be changed here.`);
    else put([active], [""]);
    return true;
  }
  // the field has the focus before the browser handles the key, so the character arrives there, also from an input method
  if (!isFar && !event.altKey && (event.key.length === 1 || ["Dead", "Process"].includes(event.key))) {
    edit(true);
    event.stopPropagation();
  }
  return false;
}

/** The keys of a cell that is edited. Arrow keys move between cells after typing, and in the text after F2. */
function type(/** @type {KeyboardEvent} */ event) {
  const isText = editor instanceof HTMLTextAreaElement;
  const isList = editor instanceof HTMLSelectElement || editor?.hasAttribute("list");
  const leave = (/** @type {() => unknown} */ where) => { end(true); active.focus(); where(); return true; };
  if (event.key === "Enter" && event.altKey && isText) {
    /** @type {HTMLTextAreaElement} */ (editor).setRangeText("\n", editor?.selectionStart ?? 0, editor?.selectionEnd ?? 0, "end");
    return true;
  }
  if (event.key === "Enter") return leave(() => step(event.shiftKey ? -1 : 1, 0));
  if (event.key === "Tab") return leave(() => next(event.shiftKey ? -1 : 1));
  if (event.key === "Escape") {
    end(false);
    active.focus();
    return true;
  }
  if (event.key === "F2") isTyped = !isTyped;
  if (!isTyped || event.ctrlKey || event.shiftKey) return false;
  if (event.key === "ArrowLeft") return leave(() => step(0, -1));
  if (event.key === "ArrowRight") return leave(() => step(0, 1));
  if (event.key === "ArrowUp" && !isList) return leave(() => step(-1, 0));
  if (event.key === "ArrowDown" && !isList) return leave(() => step(1, 0));
  return false;
}

grid.setAttribute("role", "grid");
grid.setAttribute("aria-describedby", "grid-keys");
/** @type {HTMLElement} */ (document.getElementById("grid-keys")).hidden = false;
body.querySelectorAll("td").forEach((cell) => { cell.tabIndex = -1; });
tame(body);
activate(active);
active.removeAttribute("aria-selected");

grid.addEventListener("keydown", (event) => {
  if (event.isComposing || !body.contains(/** @type {Node} */ (event.target))) return;
  if (!["Tab", "Shift", "Control", "Alt", "Meta"].includes(event.key)) isInside = true;
  const wasEdited = Boolean(editor);
  const isOurs = editor ? type(event) : move(event);
  if (wasEdited) isInside = true; // the focus left the field
  if (isOurs) event.preventDefault();
});
grid.addEventListener("focusin", (event) => {
  const cell = /** @type {HTMLElement} */ (event.target).closest("td");
  if (cell && body.contains(cell) && !editor) activate(cell);
});
grid.addEventListener("focusout", (event) => {
  if (editor && event.target === editor) end(true);
  if (!grid.contains(/** @type {Node | null} */ (event.relatedTarget))) isInside = false;
});
grid.addEventListener("click", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.closest("td") && !target.closest("a") && target !== editor) isInside = true;
});
grid.addEventListener("dblclick", (event) => {
  const cell = /** @type {HTMLElement} */ (event.target).closest("td");
  if (!editor && cell && body.contains(cell)) {
    activate(cell);
    edit(false);
  }
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void save();
});
document.getElementById("draft-discard")?.addEventListener("click", () => {
  const all = drafts();
  put(all, all.map((cell) => cell.dataset.v ?? ""));
  active.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
  event.preventDefault();
  end(true);
  void save();
});
addEventListener("beforeunload", (event) => {
  if (editor || drafts().length) event.preventDefault();
});
