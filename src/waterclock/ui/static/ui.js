// @ts-check
// The functions of every page: live updates, search for tables with Ctrl-K, and the list of keys.

/** Updates a part of the page: requests it again, and replaces it if it has changed. */
const EVERY = 3000;
export const gone = '<p class="err">The server of this page does not answer. The page shows the last known state.</p>';

export function live(/** @type {HTMLElement} */ part, /** @type {(fresh: HTMLElement) => void} */ take) {
  let tag = "";
  let isLooking = false;
  const look = async () => {
    if (document.hidden || isLooking) return;
    isLooking = true;
    try {
      const answer = await fetch(part.dataset.address ?? location.pathname, { headers: { "HX-Request": "true", ...(tag && { "If-None-Match": tag }) }, cache: "no-store" });
      const text = await answer.text();
      if (answer.status !== 304 && !answer.ok) return away(part, text);
      back(part);
      showHeader(answer.headers);
      if (answer.status === 304) return;
      const fresh = document.createElement("div");
      fresh.innerHTML = text;
      const isFirst = !tag;
      if (part.contains(document.activeElement) && document.activeElement?.matches("input, select")) return;
      if (part.querySelector("details[open] form")) return; // a user is typing there
      tag = answer.headers.get("ETag") ?? "";
      if (isFirst && plain(fresh) === plain(part)) return;
      take(fresh);
    } catch {
      away(part, gone);
    } finally {
      isLooking = false;
    }
  };
  if (part.dataset.events) follow(part, look);
  else setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
}

/**
 * Updates a part at each event that the server sends: after a tick or a batch of the table. If there is no stream, or if
 * it is silent, the part is polled as others are, and the stream is tried again after a minute. Hidden pages need no
 * stream.
 */
function follow(/** @type {HTMLElement} */ part, /** @type {() => void} */ look) {
  const seconds = Number(part.dataset.seconds);
  const patience = 1000 * Math.max(40, 2 * seconds);
  const shown = document.getElementById("following");
  let stream = /** @type {EventSource | null} */ (null);
  let heard = 0, retry = 0;
  const say = (/** @type {string} */ text) => { if (shown && shown.textContent !== text) shown.textContent = text; };
  const stop = () => { stream?.close(); stream = null; };
  const hear = () => {
    heard = performance.now();
    say(`Live: updated after each tick, at most every ${seconds} s.`);
    look();
  };
  const poll = () => {
    stop();
    retry = performance.now() + 60_000;
    say(`Updated every ${EVERY / 1000} s: there is no live stream now.`);
    look();
  };
  const start = () => {
    stop();
    heard = performance.now();
    stream = new EventSource(part.dataset.events ?? "");
    stream.addEventListener("tick", hear);
    stream.addEventListener("alive", hear);
    stream.addEventListener("error", () => stream?.readyState === EventSource.CLOSED ? poll() : look()); // it connects again
  };
  setInterval(() => {
    if (document.hidden) return stop();
    if (stream && performance.now() - heard > patience) return poll();
    if (stream) return;
    if (performance.now() >= retry) start();
    else look();
  }, EVERY);
  addEventListener("pagehide", stop);
  start();
}

/** The HTML of a part, without blanks. */
const plain = (/** @type {HTMLElement} */ part) => part.innerHTML.replace(/\s+/g, "");

/** Show the instant of the data and the active runners in the header of the page. */
function showHeader(/** @type {Headers} */ headers) {
  const [clock, runners] = [document.getElementById("clock"), document.getElementById("runners")];
  const texts = [headers.get("Waterclock-Now"), headers.get("Waterclock-Runners")];
  if (clock && texts[0]) clock.textContent = texts[0];
  if (!runners || !texts[1]) return;
  runners.textContent = texts[1];
  runners.className = texts[1].startsWith("no ") ? "idle" : "live";
}

function away(/** @type {HTMLElement} */ part, /** @type {string} */ html) {
  part.classList.add("is-old");
  let banner = document.getElementById("away");
  if (!banner) {
    banner = document.createElement("div");
    banner.id = "away";
    banner.className = "away";
    banner.setAttribute("role", "alert");
    part.before(banner);
  }
  if (banner.dataset.html !== html) banner.innerHTML = banner.dataset.html = html;
}

function back(/** @type {HTMLElement} */ part) {
  part.classList.remove("is-old");
  document.getElementById("away")?.remove();
}

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
