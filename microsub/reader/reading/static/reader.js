// Reading with a script: the same actions as without it, but without reloading, and with keys.
import { atPosts, markListed, place, prepareFeed } from "./feed.js";
import { canLeave, isLeaving, prepareForms, showTotal, takeBack, tellNothing } from "./marks.js";
import { prepareBranches, tellLast, turnTo, watchNews } from "./news.js";
import { atPost, preparePost } from "./post.js";

const SETTLED = 3000; // milliseconds after which a list is kept for reading without a network
const early = self.early ?? { keys: [] }; // of unfolded.js

// Hide pictures that can't be loaded; a face becomes its letter.
function leaveOut({ target }) {
  if (target.matches?.("img[data-letter]")) {
    const letter = document.createElement("span");
    [letter.className, letter.ariaHidden, letter.textContent] = ["face", "true", target.dataset.letter];
    target.replaceWith(letter);
    if (performance.getEntriesByName(target.src).at(-1)?.responseStatus === 429) { // too many at once: the letter stands until it comes
      target.loading = "eager";
      target.addEventListener("load", () => letter.replaceWith(target));
      setTimeout(() => (target.src = target.src), 10000);
    }
  } else if (target.matches?.(".post img")) {
    (target.closest(".photos a, a[data-whole]") || target).hidden = true;
  }
}
addEventListener("error", leaveOut, true);

for (const image of document.querySelectorAll(".post img")) {
  if (image.complete && image.naturalWidth === 0) {
    if (image.loading === "lazy") {
      image.src = image.src; // failed before this script ran, or not asked for yet: its error comes from now on
    } else {
      leaveOut({ target: image });
    }
  }
}

// In a list, the words of actions are for screen readers; a tooltip shows them.
document.addEventListener("pointerover", ({ target }) => {
  const act = target.closest?.(".post:not(.whole) .acts > *");
  if (act) {
    act.title = act.innerText;
  }
});

// A picture is shown whole, unless its publisher has made it a link.
document.addEventListener("click", (event) => {
  const photo = event.target.closest?.(".post .photos a, .post .content a[data-whole]");
  if (photo && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    import("./lightbox.js").then(({ enlarge }) => enlarge(photo.querySelector("img")));
  }
});

// --- keys: they are read from the visible table in the page (the dialog "keys")

const PATIENCE = 1500; // maximum milliseconds between the two keys of a sequence
const SOON = 1500; // milliseconds for which keys are meant for the page that is underway
const LATE = 10000; // milliseconds after which the page for which a key was meant hasn't come
const HELD = ["Shift", "AltGraph", "CapsLock"]; // keys that change others, also between two of a sequence
const PLAYER = "audio, video";
const LEADING = ["nextChannel", "previousChannel", "reload", "show"]; // to other pages
const dialog = document.getElementById("keys");

function table() {
  const keys = new Map();
  for (const row of document.querySelectorAll("[data-key]")) {
    for (const key of row.dataset.key.split("|")) {
      keys.set(key, row.dataset.act);
    }
  }
  return keys;
}

function press(selector) {
  const found = document.querySelector(selector);
  found?.click();
  return Boolean(found);
}

let came = null; // what had the focus before the field for a search

const everywhere = {
  all: () => press("button[data-act=all]") || markListed() || document.querySelector(".post:not(.is-read)") || tellNothing("allRead"),
  undo: () => takeBack(() => document.querySelector("#done p:not([hidden]) [form=undo]:not([hidden]), [role=status]:not(#done) button:is([name=undo], [name=channel], [form=end])")),
  send: () => press(".post:focus-within .service, .post.whole .service") || document.querySelector(".service") || !document.querySelector(".post") || tellNothing("serviceless"),
  show: () => press(".views [data-show]:not([aria-current])"),
  reload: () => location.assign(document.querySelector("#news a")?.href || location.href),
  nextChannel: () => turnTo(1) || tellLast(),
  previousChannel: () => turnTo(-1) || tellLast(),
  channels: () => (document.querySelector("#channels li a[aria-current]") ?? document.querySelector("#channels li a"))?.focus(),
  search: () => {
    came = document.activeElement;
    (document.querySelector("#filter [type=search], #search-form [type=search]") || document.querySelector("#channels input"))?.select();
  },
  play: () => import("./listening.js").then(({ playOrPause }) => playOrPause(episodeHere())),
  keys: () => (dialog.open ? dialog.close() : showKeys()),
};

/** The post that P plays, unless the focus is in the bar: that of the place, also after a press beside it. */
const episodeHere = () => (document.activeElement.closest("#listening") ? null : (place() ?? document.querySelector(".post.whole")));

/** Leave a field for where it was reached from, or close a menu of the heading; false if there is neither. */
function leave(field) {
  const menu = document.querySelector(".heading details[open]");
  if (field) {
    const isEmptied = field.type === "search" && field.value !== field.defaultValue; // by the browser
    if (!isEmptied) {
      field.blur();
      came?.focus({ preventScroll: true });
    }
    return !isEmptied;
  }
  menu?.removeAttribute("open");
  menu?.querySelector("summary").focus();
  return Boolean(menu);
}

/** In the table of all feeds, the keys for posts go through its lines. */
function along(step) {
  const lines = [...document.querySelectorAll("#feeds th a[dir]")];
  const at = lines.indexOf(document.activeElement.closest("#feeds tr")?.querySelector("th a"));
  lines[at < 0 ? 0 : at + step]?.focus();
}
const atFeeds = { next: () => along(1), previous: () => along(-1), down: () => along(1), up: () => along(-1), open: () => press("#feeds th a:focus") };

// In Chromium, a player's controls keep all keys from the page after a press; the player itself leaves it most.
for (const name of ["play", "pause", "seeked", "volumechange"]) {
  document.addEventListener(name, ({ target }) => {
    if (target === document.activeElement && target.matches(":hover")) {
      target.focus({ preventScroll: true });
    }
  }, true);
}

function showKeys() {
  dialog.showModal();
  dialog.scrollTop = 0; // the focus is on the button below the table
}

/** Have the page that is underway take a key that was pressed on this one. */
function handOver(key) {
  try {
    sessionStorage.setItem("early", JSON.stringify([...handedOver(), { key, isHanded: true, at: Date.now() }]));
  } catch {
    // The browser keeps nothing, and the key is lost.
  }
}

function handedOver() {
  return JSON.parse(sessionStorage.getItem("early") ?? "[]").filter(({ at }) => Date.now() - at < LATE);
}

/** Take the keys that were pressed before this page could: they go where the ones before them lead, also into a field. */
function takeEarly() {
  try {
    early.keys.unshift(...handedOver());
    sessionStorage.removeItem("early");
  } catch {
    // The page before could keep nothing, either.
  }
  for (const { key, isHanded } of early.keys) {
    const field = document.activeElement.closest("[type=text], [type=search]");
    if (!field && (key !== " " || isHanded)) {
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    } else if (field && key === "Enter") {
      field.form.requestSubmit();
    } else if (field && key.length === 1) {
      field.setRangeText(key, field.selectionStart, field.selectionEnd, "end");
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
  }
}

function listen(more) {
  if (!dialog) {
    return;
  }
  const keys = table();
  const acts = { ...everywhere, ...(document.querySelector("#feed, .post.whole") ? more : atFeeds) };
  const base = document.querySelector(".home").getAttribute("href").replace(/\/$/, "");
  let [first, at] = ["", 0];

  function run(act) {
    if ((act.startsWith("go ") || LEADING.includes(act)) && !canLeave()) {
      return;
    }
    if (act.startsWith("go ")) {
      location.assign(base + act.slice(3));
    } else if (act.startsWith("press ")) {
      press(act.slice(6));
    } else {
      acts[act]();
    }
  }

  function take(event) {
    const isTyping = event.target.closest("input:not([type=radio], [type=checkbox]), textarea, select");
    const player = event.target.closest(PLAYER);
    if (event.key === "Escape" && !event.isComposing && !document.querySelector("dialog[open]") && !isTyping?.matches("select") && (leave(isTyping) || player)) {
      player?.blur();
      event.preventDefault();
      return;
    }
    const pressed = { Enter: "a, button, summary", " ": `a, button, summary, input, label, ${PLAYER}`, Home: PLAYER, End: PLAYER };
    const control = event.key.startsWith("Arrow") ? `input, ${PLAYER}` : pressed[event.key];
    const isPressing = HELD.includes(event.key) || (control && event.target.closest(control));
    if (isTyping || isPressing || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) {
      return;
    }
    const open = document.querySelector("dialog[open]");
    if (open && (open !== dialog || keys.get(event.key) !== "keys")) {
      return;
    }
    const key = event.key === " " && !event.shiftKey ? "Space" : event.key;
    const before = event.timeStamp - at < PATIENCE ? first : "";
    const act = keys.get(`${before} ${key}`.trim()) || keys.get(key);
    [first, at] = [key, event.timeStamp];
    const isKnown = act && (acts[act] || act.includes(" "));
    if (isLeaving(SOON) && (isKnown || key.length === 1)) {
      event.preventDefault();
      if (!event.repeat) {
        handOver(event.key);
      }
    } else if (isKnown) {
      event.preventDefault();
      first = "";
      run(act);
    }
  }
  addEventListener("keydown", take);
  for (const button of document.querySelectorAll("button[data-act=keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => run("keys"));
  }
}

// The field that a menu is for: what is typed there would otherwise be keys of the page.
document.addEventListener("toggle", ({ target }) => target.open && target.querySelector("[data-focus-open]")?.select(), true);

// A field that the page is for, except where the keyboard would cover the page.
if (!matchMedia("(hover: none) and (pointer: coarse)").matches) {
  const field = document.querySelector("[data-focus]");
  field?.focus();
  if (["text", "search"].includes(field?.type)) {
    field.setSelectionRange(field.value.length, field.value.length);
  }
}
removeEventListener("keydown", early);
prepareForms();
showTotal();
prepareFeed();
preparePost();
if (document.querySelector("[data-player]")) {
  import("./play.js").then(({ preparePlayers }) => preparePlayers());
}
if (document.querySelector("[role=feed]") && navigator.maxTouchPoints) {
  import("./swipes.js").then(({ prepareSwipes }) => prepareSwipes());
}
if (document.querySelector("#listening, form[action$='/listen']")) {
  import("./listening.js").then(({ prepareListening }) => prepareListening());
}
watchNews();
prepareBranches();
listen(document.querySelector(".post.whole") ? { ...atPosts, ...atPost } : atPosts);
takeEarly();
if (document.querySelector("#feed[data-channel=global][data-show=unread]")) {
  setTimeout(() => import("./keep.js").then(({ keepPosts }) => keepPosts()), SETTLED);
}
canLeave(); // says that the page is a kept one
const worker = new URL("service-worker.js", document.querySelector("link[rel=manifest]").href);
navigator.serviceWorker?.register(worker);
