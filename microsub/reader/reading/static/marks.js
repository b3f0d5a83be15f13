// Marks and saves: sends the page's forms without leaving it, and shows the result from the server.
import { forget, hasWaiting, keep, sendWaiting, showWaiting, waitingIds } from "./waiting.js";

const feed = document.getElementById("feed");
const texts = document.getElementById("channels")?.dataset ?? {};
const bar = document.getElementById("done");
const UNDOABLE = 60000; // milliseconds for which a message offers to undo
const UNDOABLE_ONE = 8000; // if it is about one post, which can also be changed back where it is, or about older marks
const LASTING = 600000; // milliseconds for which the key undoes marks of many posts, as long as the server can
let hiding = 0;
let turns = 0; // how many actions there have been
let newest = 0; // the turn of the message that is shown
let underway = 0; // actions whose replies haven't come
let lasting = 0; // characters of those that are sent also if the page is left
let marking = null; // the last request for many posts: what takes it back waits for its reply

export function article(id) {
  return document.getElementById(`post-${id}`);
}

const title = document.title.replace(document.querySelector("title").dataset.total ?? "", "");

/** Show the number of all unread posts in the tab's title, and on the icon of the installed app. */
export function showTotal() {
  const shown = document.querySelector("[data-channel=global] .count:not([hidden]) [data-count]");
  const total = Number(shown?.dataset.count ?? 0);
  document.title = total ? `(${total}) ${title}` : title;
  navigator.setAppBadge?.(total).catch(() => {}); // where nothing shows it
}

function showCount(shown, count) {
  shown.dataset.count = count;
  shown.textContent = String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f"); // as the server writes it
  shown.closest(".count, .number").hidden = count === 0;
  shown.closest(".branch li")?.classList.toggle("none", count === 0);
}

/** Show the unread count of each channel. */
export function showCounts(unread) {
  for (const shown of document.querySelectorAll("[data-channel] [data-count]")) {
    const count = unread[shown.closest("[data-channel]").dataset.channel];
    if (count !== undefined) {
      showCount(shown, count);
    }
  }
  showTotal();
}

// --- counts while marks wait for the network: as this page can tell them, until the server has the marks

const shifted = new Map(); // the name of waiting data → the counts that it changed, and by how much
const OUTSIDE = ["global", "saved"]; // All counts the posts of all others
const MOST_LASTING = 50000; // characters underway: a browser sends 64 KiB in all after its page is left, and refuses more
const countsIn = (selector) => [...document.querySelectorAll(`#channels ${selector} .count [data-count]`)];
const placeOf = ({ pathname, search }) => `${pathname} ${new URLSearchParams(search).get("channel")}`;
const feedsAt = (address) => countsIn("[data-feed]").filter((one) => placeOf(one.closest("a")) === placeOf(new URL(address)));

/** The counts of a channel, and of All. */
function counting(channel) {
  return [channel, ...(OUTSIDE.includes(channel) ? [] : ["global"])].flatMap((one) => countsIn(`[data-channel="${one}"]`));
}

/** The counts that have a post: its channel's, that of All, and its feed's if the channel is unfolded. */
function countsOf(post) {
  const open = feed?.dataset.channel ?? document.querySelector("#channels [data-channel][aria-current]")?.dataset.channel;
  return [...counting(post.dataset.in ?? open), ...feedsAt(post.querySelector("[data-its-feed]")?.href ?? location.href)];
}

/** Change counts, none of which falls below 0. */
function shift(told, counts, by) {
  const changes = counts.map((shown) => {
    const before = Number(shown.dataset.count);
    showCount(shown, Math.max(0, before + by));
    return [shown, before - shown.dataset.count];
  });
  shifted.set(told.undo, [...(shifted.get(told.undo) ?? []), ...changes]);
  showTotal();
}

/** Show the counts that the server tells, or if its reply has to wait, those after a change of these posts. */
export function showChanged(told, ids, by) {
  showCounts(told.unread);
  if (told.waits) {
    ids.map(article).filter(Boolean).forEach((post) => shift(told, countsOf(post), by));
  }
}

/** The same after a mark of all posts in a place, of which so many are `listed` on the page. */
function showEmptied(told, channel, source, listed) {
  showCounts(told.unread);
  if (told.waits) {
    const own = source ? feedsAt(location.href) : countsIn(`[data-channel="${channel}"]`);
    const lines = channel === "global" ? ["[data-feed]", "[data-channel]:not([data-channel=saved])"] : [`.branch[data-uid="${channel}"]`];
    const marked = Number(own[0]?.dataset.count ?? listed);
    shift(told, [...counting(channel), ...(source ? own : [])], -marked);
    shift(told, source ? [] : lines.flatMap(countsIn), -Infinity);
  }
}

/** Take back what waiting data changed. */
function shiftBack(name) {
  for (const [shown, by] of shifted.get(name) ?? []) {
    showCount(shown, Number(shown.dataset.count) + by);
  }
  shifted.delete(name);
  showTotal();
}

/** Show a post as read or unread, and as saved or not. */
export function showState(id, act, on) {
  const post = article(id);
  const button = post && post.querySelector(`.acts [data-act=${act}]`);
  if (!button) {
    return;
  }
  button.name = { read: on ? "unread" : "read", save: on ? "unsave" : "save" }[act];
  button.setAttribute("aria-pressed", String(on));
  if (act === "read") {
    post.classList.toggle("is-read", on);
    const state = post.querySelector("[data-state]");
    if (state) {
      state.textContent = on ? "" : state.dataset.word;
    }
    if (!on) {
      document.querySelector(".marking, .of-search > [data-act=all]")?.removeAttribute("hidden"); // only where something is unread
    }
  }
}

export function isOn(id, act) {
  const button = article(id) && article(id).querySelector(`.acts [data-act=${act}]`);
  return button !== null && button.getAttribute("aria-pressed") === "true";
}

/** Whether the button of a post that shows its state is in view. */
function isShown(id, act) {
  const button = article(id)?.querySelector(`.acts [data-act=${act}]`);
  const { x, y, width, height } = button?.getBoundingClientRect() ?? {};
  return Boolean(height) && button.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}

/** Send fields with the hidden ones of a form; returns the changes and the turn of this action, or null if refused. */
export async function send(form, fields) {
  const turn = (turns += 1);
  const body = new URLSearchParams(new FormData(form));
  for (const [name, value] of Object.entries(fields)) {
    body.set(name, value);
  }
  const { length } = body.toString();
  const keepalive = lasting + length < MOST_LASTING; // a page that is left at once sends it all the same
  underway += 1;
  lasting += keepalive ? length : 0;
  let kept = navigator.onLine ? null : keep(form, body); // at once: a page that is closed learns of no failure
  try {
    hasWaiting() && navigator.onLine && (await sendAll()); // an older change, sent after this one, would overwrite it
    const headers = { accept: "application/json" };
    const reply = await fetch(form.action, { method: "POST", body, headers, keepalive });
    kept && forget(kept.name); // a server on this machine needs no network
    if (reply.ok) {
      return { ...(await reply.json()), turn };
    }
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const alert = page.querySelector("[role=alert]");
    say(alert ? alert.textContent : reply.statusText, "", turn);
  } catch (problem) {
    kept ??= keep(form, body);
    if (isLeaving()) {
      return { unread: {}, text: "", undo: "", turn }; // the next page sends what is kept
    }
    if (kept) {
      const isBulk = form.id === "mark-all" || "above" in fields || "all" in fields;
      return { unread: {}, text: kept.text, undo: isBulk ? kept.name : "", turn, waits: true };
    }
    say(problem.message, "", turn);
  } finally {
    underway -= 1;
    lasting -= keepalive ? length : 0;
  }
  return null;
}

/** The number of the next action; 0 while states on the page aren't as the server has them. */
export function settled() {
  return underway || hasWaiting() ? 0 : turns + 1;
}

/** Show the states of posts that other pages and devices may have changed: read 1, saved 2 more. */
export function showStates(states) {
  for (const [id, state] of Object.entries(states)) {
    showState(id, "read", (state & 1) === 1);
    showState(id, "save", (state & 2) === 2);
  }
}

const sent = new Map(); // the name of waiting data → the server's undo name
let counted = {}; // the counts after what was sent last

/** Send waiting data; null if the network is still unavailable. Data that the server refuses isn't sent again. */
async function post(form, waited) {
  const body = new URLSearchParams(new FormData(form));
  waited.fields.forEach(([name, value]) => body.set(name, value));
  try {
    const reply = await fetch(form.action, { method: "POST", body, headers: { accept: "application/json" } });
    if (reply.ok) {
      const told = await reply.json();
      sent.set(waited.name, told.undo);
      counted = told.unread;
      if (mass.undo === waited.name) {
        changed.has(waited.name) && changed.set(told.undo, changed.get(waited.name));
        mass = { ...mass, text: told.text, undo: told.undo };
      }
    }
    return reply;
  } catch {
    return null;
  }
}

/** Send what waits. When a request has got through, the counts follow, and the message says what was done. */
export async function sendAll() {
  const isSending = hasWaiting();
  await sendWaiting(post);
  if (hasWaiting()) {
    return;
  }
  showCounts(counted);
  shifted.clear();
  if (saysOffline() && (isSending || (await fetch(location.href, { method: "HEAD" }).catch(() => null)))) {
    const isMass = sent.get(document.getElementById("undo").elements.undo.value) === mass.undo;
    isMass && mass.undo ? say(mass.text, mass.undo, newest, mass.until) : say("");
  }
}

/** Show a message about an action, with an undo button if it can be undone; a late reply doesn't cover a newer action's. */
export function say(text, undo = "", turn = (turns += 1), until = Date.now() + (undo ? shownFor(undo) : 5000), first = "") {
  if (turn < newest || !bar) {
    return;
  }
  newest = turn;
  bar.classList.remove("quiet");
  const form = document.getElementById("undo");
  if (form) {
    form.elements.undo.value = undo;
  }
  undo || giveBack();
  bar.querySelectorAll("button").forEach((button) => (button.hidden = !undo));
  bar.querySelector("[data-kept]")?.toggleAttribute("hidden", true);
  bar.querySelector("[data-text]").textContent = first ? `${first} ${text}` : text;
  bar.querySelector("p").hidden = !text;
  clearTimeout(hiding);
  hiding = setTimeout(hide, until - Date.now());
}

function hide() {
  giveBack();
  bar.querySelector("p").hidden = true;
}

// A list of lines has no empty place for messages, so the list of channels ends above them, wherever it begins.
const notes = document.querySelector(".notes") ?? bar;

function room() {
  const begins = document.getElementById("channels")?.getBoundingClientRect().top ?? 0;
  document.documentElement.style.setProperty("--said", notes.offsetHeight > 20 ? `${notes.offsetHeight + 49 + begins}px` : "0px");
}

if (notes) {
  new ResizeObserver(room).observe(notes);
  addEventListener("scroll", room, { passive: true });
}

let came = null; // what had the focus before the message
bar?.addEventListener("focusin", ({ relatedTarget }) => (came = bar.contains(relatedTarget) ? came : relatedTarget));

/** Give the focus back to its post, or to the first one in view, before the message goes that has it. */
function giveBack() {
  if (bar.contains(document.activeElement)) {
    const inView = [...document.querySelectorAll(".post")].find((post) => post.getBoundingClientRect().bottom > 0);
    (came?.isConnected && came.closest(".post") ? came : inView)?.focus({ preventScroll: true });
  }
}

// On a phone, a message doesn't lie on the text of the post that is opened next; keys and further marks undo as before.
document.addEventListener("click", ({ target }) => {
  if (bar && target.closest(".post:not(.is-open)") && !target.closest("button, form") && matchMedia("(max-width: 52rem)").matches) {
    hide();
  }
});

const isOfOne = (undo) => undo.includes(" ");

const shownFor = (undo) => (isOfOne(undo) ? UNDOABLE_ONE : UNDOABLE);

/** Whether the message says that the network is away. */
function saysOffline() {
  const shown = bar?.querySelector("p:not([hidden]) [data-text]")?.textContent ?? "";
  return [texts.offline, texts.unkept, texts.waits].some((text) => shown.endsWith(text));
}

export const isOffered = () => Boolean(bar?.querySelector("p:not([hidden]) [form=undo]:not([hidden])"));

/** Say a text that the list of channels has for scripts. */
export const tell = (name) => say(texts[name]);

/** Say that nothing is unread, unless that covered the undo of what was marked. */
export const tellNothing = (name) => isOffered() || tell(name);

const isMassOffered = () => isOffered() && document.getElementById("undo").elements.undo.value === mass.undo;

/** Say once that a list has ended; an undo that is offered stays so. */
export function tellEnd(text) {
  const shown = bar?.querySelector("p:not([hidden]) [data-text]")?.textContent ?? "";
  if (isMassOffered() && !shown.startsWith(text)) {
    say(mass.text, mass.undo, newest, mass.until, `${text} ${texts.earlier}`);
  } else if (!isOffered() && shown !== text) {
    say(text);
  }
}

const NONE = { turn: 0, until: 0, lasts: 0 };
let mass = NONE; // the last marks of many posts: what was said, until when it is shown, and until when they can be undone

const place = `said of ${document.getElementById("channels")?.dataset.user}`; // the next page of this tab may be another user's
let own = []; // other changes that the key takes back, the newest last: of one post by hand, and runs of marks by scrolling

/** Keep all that for the next pages of this tab, which go on showing a message about those marks that wasn't covered. */
function takeAlong() {
  if (document.getElementById("undo")) {
    const until = isMassOffered() ? mass.until : 0;
    const before = own.map((one) => ({ ...one, turn: one.turn - mass.turn }));
    sessionStorage.setItem(place, JSON.stringify({ ...mass, turn: 0, until, own: before }));
  }
}
addEventListener("pagehide", takeAlong);

/** Say how many posts were marked, with a button that undoes it. */
function sayMass(text, undo, turn, until = Date.now() + UNDOABLE, first = "", lasts = Date.now() + LASTING) {
  mass = { text, undo, turn, until, lasts };
  say(text, undo, turn, until, first);
}

function sayAgain() {
  const { own: before = [], ...kept } = JSON.parse(sessionStorage.getItem(place)) ?? NONE;
  if (document.getElementById("undo")) {
    own = before;
    turns = Math.max(turns, ...own.map(({ turn }) => turn));
    mass = kept.lasts > Date.now() ? kept : NONE;
    const { value } = document.getElementById("undo").elements.undo;
    const [arrival] = performance.getEntriesByType("navigation");
    if (value && arrival?.type === "navigate") { // a form of the page before has marked posts
      mass = { text: bar.querySelector("[data-text]").textContent, undo: value, turn: (turns += 1), until: Date.now() + UNDOABLE, lasts: Date.now() + LASTING };
    } else if (mass.until > Date.now() && bar.querySelector("p").hidden) {
      say(mass.text, mass.undo, mass.turn, mass.until);
    }
  }
}

/** Say what was taken back, and offer the undo of the marks before it as long as it can be had. */
function sayUndone(turn, what = "") {
  const said = `${texts.undone} ${what}`.trim();
  if (mass.until > Date.now() && !isNextUndone(own.at(-1))) {
    say(mass.text, mass.undo, turn, mass.until, `${said} ${texts.earlier}`);
  } else {
    say(said, "", turn);
  }
}

// Whether the page begins without a network: at the address that it is fetched from, it is one of now.
const isKept = document.querySelector("#feed[data-kept]") !== null && !new URLSearchParams(location.search).has("whole");

/** Say since when a page is kept: it looks like one of now. */
async function sayKept() {
  const since = await import("./keep.js").then((module) => module.keptSince());
  const how = { weekday: "long", day: "numeric", month: "long", hour: "numeric", minute: "2-digit" };
  const time = new Date(since).toLocaleString(document.documentElement.lang, how);
  since && say(texts.keptSince.replace("{time}", time));
}
isKept && sayKept();

/** A part of the page that is kept for reading without a network; null if it can't be had. */
export const keptPart = (selector) => import("./keep.js").then((module) => module.keptPart(selector)).catch(() => null);

/** Whether other pages can be had; says so on a page where a message has its place if not, so that what is open stays. */
export function canLeave(name = "offline") {
  const isStuck = !navigator.onLine && document.getElementById("undo");
  if (isStuck) {
    tell(name);
    const turn = newest;
    isKept || keptPart(".post").then((found) => turn === newest && bar.querySelector("[data-kept]").toggleAttribute("hidden", !found));
  }
  return !isStuck;
}

const LEAVING = 10000; // milliseconds for which the next page may be underway
const OPENING = 500; // milliseconds in which a press on a link opens it
let left = -LEAVING;
let outside = -LEAVING; // when a link to another program was pressed, such as that for mail
document.addEventListener("click", ({ target, timeStamp }) => {
  const { protocol = "http:" } = target.closest?.("a[href]") ?? {};
  outside = protocol.startsWith("http") ? -LEAVING : timeStamp;
});
addEventListener("beforeunload", ({ timeStamp }) => timeStamp - outside < OPENING || (left = performance.now())); // Chromium says so of these, too
addEventListener("pageshow", () => (left = -LEAVING)); // the browser's way back

/**
 * Whether the next page is underway, and has been for these milliseconds at most. Firefox and Safari end at once what
 * this one fetches, which is no failure then.
 */
export const isLeaving = (most = LEAVING) => performance.now() - left < most;

export const MOST_LISTED = 1000; // posts that a form may name
const changed = new Map();
const OPPOSITE = { read: "unread", unread: "read", save: "unsave", unsave: "save" };

/**
 * Change one post, or the posts of some ids with commas between them, or all down to one; the button's name is the change.
 * What is `said` of a change of one post comes with a button that undoes it. Returns the changes, or null if they were
 * refused, which is said.
 */
export async function change(name, id, said = "", more = {}) {
  const form = document.getElementById("change");
  const ids = [...document.querySelectorAll(".post")].map((post) => post.dataset.id);
  const given = name === "above" ? ids.slice(0, ids.indexOf(id) + 1) : id.split(",");
  const unread = given.filter((one) => one === id || !isOn(one, "read")).slice(-MOST_LISTED);
  const asked = { read: given, unread: given, above: unread, all: unread }[name];
  const before = new Map((asked || []).map((one) => [one, isOn(one, "read")]));
  const wasSaved = isOn(id, "save");
  for (const one of asked || []) {
    showState(one, "read", name !== "unread");
  }
  if (!asked) {
    showState(id, "save", name === "save");
  }
  const isMass = name === "above" || name === "all";
  const sending = send(form, { ...more, [name]: name === "all" ? 1 : id, page: (asked || []).join(",") });
  marking = isMass ? sending : marking;
  const told = await sending;
  if (!told) {
    before.forEach((was, one) => showState(one, "read", was));
    if (!asked) {
      showState(id, "save", name !== "save");
    }
    return null;
  }
  const isUnread = name === "unread";
  showChanged(told, [...before.keys()].filter((one) => before.get(one) === isUnread), isUnread ? 1 : -1);
  if (told.waits && !asked && wasSaved !== (name === "save")) {
    shift(told, [...document.querySelectorAll("#channels [data-channel=saved] [data-count]")], name === "save" ? 1 : -1);
  }
  if (told.undo) {
    changed.set(told.undo, [...before].filter(([, was]) => !was).map(([one]) => one));
  }
  const text = told.text || said;
  if (isMass) {
    sayMarked(told);
  } else if (text) {
    say(text, said ? `${OPPOSITE[name]} ${id}` : told.undo, told.turn);
    if (told.turn === newest) { // nothing newer has been said
      bar?.classList.toggle("quiet", !said && !told.undo && !told.waits && isShown(id, asked ? "read" : "save"));
    }
  }
  return told;
}

const MOST_KEPT = 20; // of those other changes

/** Note how the next request's change is taken back; `before` was noted for the same. */
export function note(name, ids, before = null) {
  const { channel } = document.getElementById("change").elements;
  const noted = { name, ids, channel: channel.value, turn: turns + 1, lasts: Date.now() + LASTING };
  own = [...own.filter((one) => one !== before).slice(1 - MOST_KEPT), noted];
  return noted;
}

/** Change one post as the user asks, so that `takeBack` changes it back. */
export function changeByHand(name, id) {
  note(OPPOSITE[name], [id]);
  return change(name, id);
}

/** Whether that is what the key takes back next. */
export const isNextUndone = (noted) => own.at(-1) === noted && noted?.turn > mass.turn;

/**
 * Press what undoes the newest action, which `find` finds, or change back what was marked or saved since, the newest
 * first, or else undo the marks of many posts, which keep what is older; says so if there is nothing.
 */
export async function takeBack(find) {
  for (let waited = null; waited !== marking; await waited) {
    waited = marking; // before which another press may have taken something back
  }
  const button = find();
  own = own.filter(({ ids, lasts }) => ids.length && lasts > Date.now());
  const last = own.at(-1);
  if (button && !(last?.turn > newest)) {
    button.click();
    return;
  }
  if (isNextUndone(last)) {
    own.pop();
    const { name, ids, channel } = last;
    const now = turns + 1;
    const told = await change(name, ids.join(), "", { channel });
    if (told) {
      sayUndone(now, told.text || feed?.dataset[`${name}Said`]); // unless something newer has been said meanwhile
    } else {
      own.push(last);
    }
  } else if (mass.lasts > Date.now()) {
    sayMass(mass.text, mass.undo, (turns += 1), mass.until, "", mass.lasts); // it has gone, or a message has covered it
    await undo(document.getElementById("undo"));
  } else {
    tell("lasting");
  }
}

/** Say how many posts were marked; that none was unread doesn't cover the undo of the mark before. */
function sayMarked(told) {
  if (told.undo) {
    sayMass(told.text, told.undo, told.turn);
  } else if (!isOffered()) {
    say(told.text, "", told.turn);
  }
}

/** Mark all posts of the page's place, or those `older` than some days; true if the server has done so. */
export async function markAll(form = document.getElementById("mark-all"), older = "") {
  const unread = [...document.querySelectorAll(".post:not(.is-read)")].map((post) => post.dataset.id);
  const pressed = Math.floor(Date.now() / 1000);
  const isOfPart = older || form.elements.channel.value !== document.getElementById("change").elements.channel.value; // a feed was moved
  const page = isOfPart ? { page: unread.slice(0, MOST_LISTED).join(",") } : {};
  const told = await (marking = send(form, older ? { older, pressed, ...page } : page));
  document.querySelector(".marking details")?.removeAttribute("open");
  if (told) {
    const read = isOfPart ? told.read || [] : unread; // offline, nobody says which are older
    read.forEach((id) => showState(id, "read", true));
    if (older) {
      showCounts(told.unread);
    } else {
      showEmptied(told, form.elements.channel.value, form.elements.source.value, unread.length);
    }
    changed.set(told.undo, read);
    sayMarked(told);
  }
  return told !== null;
}

async function undo(form) {
  const id = form.elements.undo.value;
  const [opposite, swiped] = id.split(" ");
  if (swiped) {
    const now = turns + 1;
    own = own.filter(({ name, ids }) => `${name} ${ids}` !== id);
    const told = await change(opposite, swiped);
    if (told) {
      sayUndone(now, told.text);
    }
    return;
  }
  const marked = changed.get(id) ?? waitingIds(id); // of an earlier page, perhaps
  const dropped = id && forget(id);
  if (dropped) {
    shiftBack(id);
  }
  const told = dropped ? { unread: {}, text: dropped } : id && (await (marking = send(form, { undo: sent.get(id) || id })));
  if (told) {
    marked.forEach((one) => showState(one, "read", false));
    changed.has(id) || dispatchEvent(new Event("undone")); // of posts that an earlier page has marked
    changed.delete(id);
    mass = mass.undo === id ? NONE : mass;
    showChanged(told, marked, 1);
    if (told.undo) {
      sayMass(told.before, told.undo, told.turn, Date.now() + UNDOABLE_ONE, told.text); // the marks before these
    } else {
      say(told.text, "", told.turn);
    }
  }
}

/** The posts of the pages of a list that have been reached, without those that were loaded ahead. */
function reached() {
  const posts = [...document.querySelectorAll(".post")];
  const { place } = (posts.findLast((post) => post.getBoundingClientRect().top < innerHeight) ?? posts[0]).dataset;
  return posts.slice(0, posts.findLastIndex((post) => post.dataset.place === place) + 1).map((post) => post.dataset.id).join();
}

/** Send the page's forms by this script. The focus doesn't move. */
export function prepareForms() {
  const form = document.getElementById("change");
  if (form) {
    addEventListener("online", sendAll);
    showWaiting(showState);
    sendAll();
  }
  sayAgain();
  bar?.querySelector("[data-close]")?.addEventListener("click", () => {
    mass = { ...mass, until: 0 };
    say("");
  });
  document.addEventListener("submit", (event) => {
    const { target, submitter } = event;
    if (target.id === "change" && submitter) {
      event.preventDefault();
      (OPPOSITE[submitter.name] ? changeByHand : change)(submitter.name, submitter.name === "all" ? reached() : submitter.value);
    } else if (target.id === "mark-all") {
      event.preventDefault();
      markAll(target, submitter?.value);
    } else if (target.id === "undo") {
      event.preventDefault();
      undo(target);
      giveBack();
    }
  });
}

export { feed };
