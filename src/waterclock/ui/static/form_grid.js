// @ts-check
// Edits cells in the list of a form's rows by keyboard. The changed cells are a draft in this page: the server checks each,
// renders it, and saves all of them as one batch. Without this script the list is a table with links to its rows.
import { SIGNED_OUT } from "./live.js";

const PATIENCE = 30_000;
const MOST_PASTED = 1_000_000; // characters
const grid = /** @type {HTMLTableElement} */ (document.getElementById("rows"));
const body = grid.tBodies[0];
const state = /** @type {HTMLElement} */ (document.getElementById("draft-state"));
const answers = /** @type {HTMLElement} */ (document.getElementById("draft-answers"));
const form = /** @type {HTMLFormElement} */ (document.getElementById("draft"));
const why = /** @type {HTMLInputElement} */ (document.getElementById("draft-why"));
/** The active cell, which is the only one that Tab reaches from outside. */
let active = body.rows[0].cells[0];
/** The corner of the selected block of cells that is opposite to the active cell. */
let anchor = active;
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
  if (document.activeElement === active) active.scrollIntoView({ block: "nearest", inline: "nearest" }); // not below the draft
}

/** Move to a cell of the grid, or as near to it as there is one. With `isExtended`, select the block up to it. */
function go(/** @type {number} */ row, /** @type {number} */ column, isExtended = false) {
  const to = body.rows[Math.max(0, Math.min(row, body.rows.length - 1))];
  activate(to.cells[Math.max(0, Math.min(column, to.cells.length - 1))], isExtended);
  active.focus();
  if (isExtended) say(`${block().length} × ${block()[0].length} cells selected.`);
}

function activate(/** @type {HTMLTableCellElement} */ cell, isExtended = false) {
  body.querySelectorAll("td[aria-selected]").forEach((each) => each.removeAttribute("aria-selected"));
  active.tabIndex = -1;
  active = cell;
  active.tabIndex = 0;
  if (!isExtended) anchor = cell;
  block().flat().forEach((each) => each.setAttribute("aria-selected", "true"));
  grid.classList.toggle("has-block", anchor !== active);
}

/** The rows of cells between the anchor and the active cell. */
function block() {
  const [top, bottom] = [rowOf(anchor).sectionRowIndex, rowOf(active).sectionRowIndex].sort((a, b) => a - b);
  const [left, right] = [anchor.cellIndex, active.cellIndex].sort((a, b) => a - b);
  return [...body.rows].slice(top, bottom + 1).map((row) => [...row.cells].slice(left, right + 1));
}

const step = (/** @type {number} */ down, /** @type {number} */ right, isExtended = false) => go(rowOf(active).sectionRowIndex + down, active.cellIndex + right, isExtended);

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

/** Set the texts of cells, as a change that Ctrl-Z takes back. `note` is announced with the result of the check. */
function put(/** @type {HTMLTableCellElement[]} */ cells, /** @type {string[]} */ texts, { isUndo = false, note = "" } = {}) {
  const changed = cells.map((cell, at) => ({ cell, text: cell.dataset.d, to: texts[at] })).filter(({ cell, to }) => to !== textOf(cell));
  if (!changed.length) return note ? say(note) : undefined;
  if (!isUndo) undone.push(changed);
  for (const { cell, to } of changed) paint(cell, to === cell.dataset.v ? undefined : to);
  say(note);
  void check([...new Set(changed.map(({ cell }) => rowOf(cell)))], note);
}

const isFixed = (/** @type {HTMLElement} */ cell) => cell.ariaReadOnly === "true" || !cell.dataset.f;
const FORMULA = /^'*[=+\-@\t]/; // as imports and exports of forms: a spreadsheet would run it, so it gets an apostrophe
const NUMBER = /^[+-]?[0-9.]+(e[+-]?[0-9]+)?$/i;

/** The selected cells as a spreadsheet reads them: columns end at tabs, and texts of several lines are quoted. */
function copied() {
  const write = (/** @type {HTMLTableCellElement} */ cell) => {
    const text = cell.dataset.f ? textOf(cell) : cell.textContent ?? "";
    const safe = FORMULA.test(text) && !(cell.classList.contains("r") && NUMBER.test(text)) ? `'${text}` : text;
    return /["\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return block().map((row) => row.map(write).join("\t")).join("\n");
}

/** Read the cells of a text that a spreadsheet or `copied` wrote. */
function cellsOfText(/** @type {string} */ text) {
  const rows = /** @type {string[][]} */ ([[]]);
  const plain = text.replaceAll(/\r\n?/g, "\n").replace(/\n$/, "");
  for (const [, quoted, bare, end] of plain.matchAll(/(?:"((?:[^"]|"")*)"(?=[\t\n]|$)|([^\t\n]*))(\t|\n|$)/g)) {
    const found = quoted === undefined ? bare : quoted.replaceAll('""', '"');
    rows[rows.length - 1].push(/^'+[=+\-@\t]/.test(found) ? found.slice(1) : found);
    if (end === "\n") rows.push([]);
    if (!end) break;
  }
  return rows;
}

/** Fill cells with those of a text, from the first selected cell on; a selection of a multiple of its size as a whole. */
function paste(/** @type {string} */ text) {
  const given = cellsOfText(text);
  const wide = Math.max(...given.map((row) => row.length));
  const selected = block();
  const isTiled = selected.length % given.length === 0 && selected[0].length % wide === 0;
  const [rows, columns] = isTiled ? [selected.length, selected[0].length] : [given.length, wide];
  const [top, left] = [rowOf(selected[0][0]).sectionRowIndex, selected[0][0].cellIndex];
  if (top + rows > body.rows.length || left + columns > body.rows[top].cells.length) return say(`The ${given.length} × ${wide} cells do not fit here. Nothing was pasted. The page Paste rows adds rows.`);
  const to = [...body.rows].slice(top, top + rows).map((row) => [...row.cells].slice(left, left + columns));
  const filled = to.flatMap((row, down) => row.map((cell, right) => ({ cell, text: given[down % given.length][right % wide] })));
  const changed = filled.filter(({ cell, text }) => text !== undefined && text !== textOf(cell));
  const key = changed.find(({ cell }) => cell.dataset.k);
  if (key) return say(`The copied row ${key.text || "without a key"} is not ${textOf(key.cell)}. Nothing was pasted.`);
  const kept = changed.filter(({ cell }) => isFixed(cell)).map(({ cell }) => (cell.dataset.f ? nameOf(cell) : "the hints"));
  const free = changed.filter(({ cell }) => !isFixed(cell));
  anchor = to[rows - 1][columns - 1];
  activate(to[0][0], true);
  active.focus();
  const count = `${free.length} ${free.length === 1 ? "cell" : "cells"} pasted.`;
  const more = kept.length > 3 ? ` and ${kept.length - 3} more` : "";
  const note = kept.length ? `${count} These cannot be changed, and stay: ${kept.slice(0, 3).join(", ")}${more}.` : count;
  put(free.map(({ cell }) => cell), free.map(({ text }) => text), { note });
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
    if (answer.status === 401) return { status: answer.status, said: `${SIGNED_OUT}, then save. Your changes are kept in this page.`, page };
    const said = page.getElementById("said");
    if (!said) return { status: answer.status, said: `The server refused it: ${page.querySelector(".err, main, body")?.textContent?.trim() || answer.status}`, page };
    sent.forEach(({ key, version, texts }, at) => {
      const fresh = [...page.querySelectorAll("tr")].find((row) => row.dataset.row === key);
      if (!fresh || rows[at].dataset.version !== version) return; // it was saved after this check began
      rows[at].dataset.version = fresh.dataset.version;
      const own = new Map(cellsOf(rows[at]).map((cell) => [cell.dataset.f, cell]));
      for (const cell of cellsOf(fresh)) {
        const to = own.get(cell.dataset.f);
        own.delete(cell.dataset.f);
        if (to) take(to, cell, texts.get(cell.dataset.f));
      }
      for (const cell of own.values()) if (cell.dataset.d !== undefined) markLost(cell);
    });
    tame(body);
    return { status: answer.status, said: said.textContent ?? "", page };
  } catch {
    return null;
  }
}

/** Mark a changed cell whose column the form does not have any more. Its text stays. */
function markLost(/** @type {HTMLTableCellElement} */ cell) {
  if (cell.getAttribute("aria-invalid") || (editor && cell === active)) return;
  const problem = document.createElement("span");
  problem.className = "is-failed";
  problem.textContent = "✕ the form has no such column now";
  cell.setAttribute("aria-invalid", "true");
  cell.append(problem);
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

async function check(/** @type {HTMLTableRowElement[]} */ rows, note = "") {
  const answer = await send(rows, "check");
  if (!isSaving && (!answer || answer.said || drafts().length)) say([note, answer ? answer.said : OFFLINE].filter(Boolean).join(" "));
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
  put(last.map(({ cell }) => cell), last.map(({ cell, text }) => text ?? cell.dataset.v ?? ""), { isUndo: true });
}

/** The keys of a cell that is not edited. Return whether the key is one of these. */
function move(/** @type {KeyboardEvent} */ event) {
  const isFar = event.ctrlKey || event.metaKey, isBlock = event.shiftKey;
  const far = isFar ? 1e6 : 1;
  if (event.key === "Tab") return isInside && next(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") {
    isInside = false;
    activate(active);
    say("Tab leaves the table.");
    return true;
  }
  if (isFar && event.key.toLowerCase() === "z") return undo(), true;
  if (event.key === "ArrowUp") return step(-far, 0, isBlock), true;
  if (event.key === "ArrowDown") return step(far, 0, isBlock), true;
  if (event.key === "ArrowLeft") return step(0, -far, isBlock), true;
  if (event.key === "ArrowRight") return step(0, far, isBlock), true;
  if (event.key === "Home") return step(isFar ? -far : 0, -1e6, isBlock), true;
  if (event.key === "End") return step(isFar ? far : 0, 1e6, isBlock), true;
  if (event.key === "PageUp") return step(-10, 0, isBlock), true;
  if (event.key === "PageDown") return step(10, 0, isBlock), true;
  const link = active.ariaReadOnly === "true" ? active.querySelector("a") : null;
  if (event.key === "Enter" && link) return link.click(), true;
  if (event.key === "Enter" || event.key === "F2") return edit(false), true;
  if (event.key === "Delete" || event.key === "Backspace") {
    const free = block().flat().filter((cell) => !isFixed(cell));
    if (free.length) put(free, free.map(() => ""));
    else say(`${active.dataset.f ?? "It"} cannot be changed here.`);
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
grid.setAttribute("aria-multiselectable", "true");
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
  if (cell && cell !== active && body.contains(cell) && !editor) activate(cell);
});
grid.addEventListener("mousedown", (event) => {
  const cell = /** @type {HTMLElement} */ (event.target).closest("td");
  if (!cell || !body.contains(cell) || editor) return;
  activate(cell, event.shiftKey);
  if (!event.shiftKey) return;
  event.preventDefault(); // no text is selected
  active.focus();
});
/** Whether the keys of the clipboard mean the selected cells: neither a field nor a text is selected. */
const isOfCells = () => !editor && body.contains(document.activeElement) && !getSelection()?.toString();
document.addEventListener("copy", (event) => {
  if (!isOfCells()) return;
  event.preventDefault();
  event.clipboardData?.setData("text/plain", copied());
  say(`${block().length} × ${block()[0].length} cells copied.`);
});
document.addEventListener("paste", (event) => {
  if (!isOfCells()) return;
  event.preventDefault();
  isInside = true;
  const text = event.clipboardData?.getData("text/plain");
  if (text && text.length < MOST_PASTED) paste(text);
  else say(text ? "The text is too long. The page Paste rows takes more." : "There is no text to paste.");
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
