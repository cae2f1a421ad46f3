// @ts-check
// Updates parts of pages. Modules are imported under one address without a digest, so this one has no effect by itself.

export const SIGNED_OUT = "You are signed out. Sign in again in another tab";
/** Updates a part of the page: requests it again, and replaces it if it has changed. */
export const EVERY = 3000;
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
