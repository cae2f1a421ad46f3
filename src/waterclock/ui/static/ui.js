// @ts-check
// The functions of every page: live updates, forms, search for tables with Ctrl-K, and the list of keys.
// No module imports this one: it would run again.
import { EVERY, SIGNED_OUT, gone, live } from "./live.js";

/** Replace the content of a part if it has changed. A focused link stays focused. */
function takeWhole(/** @type {HTMLElement} */ part, /** @type {HTMLElement} */ fresh) {
  if (fresh.innerHTML === part.innerHTML) return;
  const address = part.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
  part.replaceChildren(...fresh.childNodes);
  if (address) /** @type {HTMLElement | null} */ (part.querySelector(`a[href="${CSS.escape(address)}"]`))?.focus({ preventScroll: true });
}

const part = document.getElementById("live");
if (part && !document.getElementById("drawer") && !part.dataset.kept) live(part, (fresh) => takeWhole(part, fresh));

/** Requests a page that could not be shown again, until it can. */
const waiting = document.getElementById("waiting");
if (waiting) {
  setInterval(async () => {
    const answer = document.hidden ? null : await fetch(location.href, { headers: { "HX-Request": "true" }, cache: "no-store" }).catch(() => null);
    if (answer?.ok) location.reload();
  }, EVERY);
}

/**
 * Sends a form of the page only if the server accepts this browser: the response to a refused request would replace the
 * page, and with it everything that was entered. Leaving the page without sending needs a confirmation.
 */
let isEntered = false;
document.addEventListener("input", (event) => { isEntered ||= Boolean(/** @type {HTMLElement} */ (event.target).closest("form.decide[method=post]")); });
addEventListener("beforeunload", (event) => { if (isEntered) event.preventDefault(); });
const accepted = /** @type {WeakSet<HTMLFormElement>} */ (new WeakSet());
document.addEventListener("submit", async (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  const { submitter } = event;
  if (form.method !== "post" || !form.closest("main") || event.defaultPrevented || accepted.delete(form)) return;
  event.preventDefault();
  const answer = await fetch(import.meta.url, { method: "HEAD", cache: "no-store" }).catch(() => null);
  form.querySelector(".unsent")?.remove();
  if (answer && answer.status !== 401 && answer.status !== 503) {
    accepted.add(form);
    isEntered = false;
    return form.requestSubmit(submitter);
  }
  const note = document.createElement("p");
  note.className = "err unsent";
  note.role = "alert";
  const why = answer?.status === 401 ? `${SIGNED_OUT}, then` : "The server does not answer. When it does,";
  note.textContent = `${why} send this again. Nothing was sent, and the page keeps what you entered.`;
  form.append(note);
});

/** The first field that needs a correction has the focus. */
/** @type {HTMLElement | null} */ (document.querySelector("main form [aria-invalid]:not([readonly])"))?.focus();

/** Sends a query with fetch, so that Stop can cancel it: the server ends Spark's job when the browser disconnects. */
/** @type {AbortController | null} */
let asking = null;
document.addEventListener("submit", async (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  const whole = form.closest("section");
  if (!form.matches("form.ask") || !whole) return;
  event.preventDefault();
  asking?.abort();
  const mine = asking = new AbortController();
  const stop = /** @type {HTMLButtonElement} */ (form.querySelector("button.stop"));
  const address = `${form.action}?${new URLSearchParams(/** @type {any} */ (new FormData(form)))}`;
  stop.hidden = false;
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" }, signal: mine.signal, cache: "no-store" });
    const text = await answer.text();
    if (answer.ok) {
      whole.innerHTML = text;
      history.pushState(null, "", address);
    } else {
      form.insertAdjacentHTML("afterend", text);
    }
  } catch {
    if (!mine.signal.aborted) form.insertAdjacentHTML("afterend", gone);
  } finally {
    if (asking === mine) asking = null;
    stop.hidden = true;
  }
});
document.addEventListener("click", (event) => {
  if (/** @type {HTMLElement} */ (event.target).matches("button.stop")) asking?.abort();
});
if (document.querySelector("form.ask")) addEventListener("popstate", () => location.reload());

/** Ctrl-K finds tables by any part of their name, and pages. */
const finder = /** @type {HTMLDialogElement} */ (document.getElementById("finder"));
const text = /** @type {HTMLInputElement} */ (document.getElementById("finder-text"));
const found = /** @type {HTMLElement} */ (document.getElementById("finder-found"));
/** @type {{name: string, address: string}[]} */
let known = [];
let isWhole = false;
let chosen = 0;

async function find() {
  finder.showModal();
  text.value = "";
  text.focus();
  if (!isWhole) {
    known = [...document.querySelectorAll("header nav a")].map((a) => ({ name: a.textContent ?? "", address: a.getAttribute("href") ?? "/" }));
    const answer = await fetch("/tables.json").catch(() => null);
    isWhole = Boolean(answer?.ok);
    if (answer?.ok) known.push(...(await answer.json()).tables.map((/** @type {string} */ name) => ({ name, address: `/tables/${encodeURIComponent(name)}` })));
  }
  show();
}

function matches() {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  return known.filter((each) => words.every((word) => each.name.toLowerCase().includes(word))).slice(0, 12);
}

function show() {
  const all = matches();
  chosen = Math.max(0, Math.min(chosen, all.length - 1));
  found.replaceChildren(...all.map((each, at) => {
    const item = document.createElement("li");
    item.role = "option";
    item.id = `found-${at}`;
    item.textContent = each.name;
    item.setAttribute("aria-selected", String(at === chosen));
    item.onclick = () => (location.href = each.address);
    return item;
  }));
  text.setAttribute("aria-activedescendant", all.length ? `found-${chosen}` : "");
}

text.addEventListener("input", () => { chosen = 0; show(); });
text.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    chosen += event.key === "ArrowDown" ? 1 : -1;
    event.preventDefault();
    show();
  }
  if (event.key === "Enter" && matches()[chosen]) location.href = matches()[chosen].address;
});
document.getElementById("find")?.addEventListener("click", find);
document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); find(); }
  const inText = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
  if (/^[1-9]$/.test(event.key) && !inText && !event.ctrlKey && !event.metaKey && !event.altKey) {
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${event.key}"]`))?.click();
  }
  if (event.key === "?" && !inText) /** @type {HTMLDialogElement} */ (document.getElementById("help")).showModal();
});
