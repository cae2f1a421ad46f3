// @ts-check
// What every page has: it keeps itself up to date, finds tables by Ctrl-K, and shows its keys.

/** Live pages: the part of the page is asked for again, and taken only where it has changed. */
const EVERY = 3000;

export function live(/** @type {HTMLElement} */ part, /** @type {(fresh: HTMLElement) => void} */ take) {
  let tag = "";
  const look = async () => {
    if (document.hidden) return;
    const address = part.dataset.address ?? location.pathname;
    try {
      const answer = await fetch(address, { headers: { "HX-Request": "true", ...(tag && { "If-None-Match": tag }) }, cache: "no-store" });
      if (answer.status === 304) return back(part);
      const text = await answer.text();
      if (!answer.ok) return away(part, text);
      back(part);
      const fresh = document.createElement("div");
      fresh.innerHTML = text;
      const isFirst = !tag;
      if (part.contains(document.activeElement) && document.activeElement?.matches("input, select")) return;
      tag = answer.headers.get("ETag") ?? "";
      if (isFirst && plain(fresh) === plain(part)) return;
      take(fresh);
      const clock = document.getElementById("clock");
      if (clock) clock.title = `looked at ${new Date().toLocaleTimeString()}`;
    } catch {
      away(part, "");
    }
  };
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
}

/** What is in a part, without the blanks between. */
const plain = (/** @type {HTMLElement} */ part) => part.innerHTML.replace(/\s+/g, "");

function away(/** @type {HTMLElement} */ part, /** @type {string} */ text) {
  part.classList.add("is-old");
  let banner = document.getElementById("away");
  if (!banner) {
    banner = document.createElement("div");
    banner.id = "away";
    banner.className = "away";
    banner.setAttribute("role", "alert");
    part.before(banner);
  }
  const said = text || '<p class="err">The server of this page does not answer: what you see is what was last known.</p>';
  if (banner.dataset.said !== said) banner.innerHTML = banner.dataset.said = said;
}

function back(/** @type {HTMLElement} */ part) {
  part.classList.remove("is-old");
  document.getElementById("away")?.remove();
}

const part = document.getElementById("live");
if (part && !document.getElementById("grid") && !part.dataset.kept) live(part, (fresh) => part.replaceChildren(...fresh.childNodes));

/** Ctrl-K: tables by any part of their name, and pages. */
const finder = /** @type {HTMLDialogElement} */ (document.getElementById("finder"));
const text = /** @type {HTMLInputElement} */ (document.getElementById("finder-text"));
const found = /** @type {HTMLElement} */ (document.getElementById("finder-found"));
/** @type {{name: string, address: string}[] | null} */
let known = null;
let chosen = 0;

async function find() {
  finder.showModal();
  text.value = "";
  text.focus();
  if (!known) {
    known = [...document.querySelectorAll("header nav a")].map((a) => ({ name: a.textContent ?? "", address: a.getAttribute("href") ?? "/" }));
    const answer = await fetch("/tables.json");
    if (answer.ok) known.push(...(await answer.json()).tables.map((/** @type {string} */ name) => ({ name, address: `/tables/${encodeURIComponent(name)}` })));
  }
  show();
}

function matches() {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  return (known ?? []).filter((each) => words.every((word) => each.name.toLowerCase().includes(word))).slice(0, 12);
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
  if (event.key === "?" && !inText) /** @type {HTMLDialogElement} */ (document.getElementById("help")).showModal();
});
