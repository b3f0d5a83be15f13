// Requests counts, states and news when the server announces a change, and at intervals. New posts are announced in a
// bar, so that nothing on the page moves. And the list of channels: its lines by key, unfolded ones, feeds that are dragged.
import { feed, isLeaving, sendAll, settled, showCounts, showStates, tellEnd, tellNothing } from "./marks.js";
import { hasWaiting } from "./waiting.js";

const PAUSE = 60000;
const MOST_ASKED = 300; // posts whose states are asked for, those around the place of reading
const bar = document.getElementById("news");

/** The ids of the posts around the place of reading, by the channel from which the page has their state. */
function around() {
  const posts = [...feed.querySelectorAll(".post[data-id]")];
  const at = Math.max(0, posts.findIndex((post) => post.getBoundingClientRect().bottom > 0));
  const from = Math.max(0, Math.min(at - MOST_ASKED / 2, posts.length - MOST_ASKED));
  const ids = {};
  for (const { dataset } of posts.slice(from, from + MOST_ASKED)) {
    const channel = dataset.in ?? feed.dataset.channel;
    ids[channel] = channel in ids ? `${ids[channel]} ${dataset.id}` : dataset.id;
  }
  return JSON.stringify(ids);
}

/** Show beside which channels feeds can't be read. */
function showSigns(signs) {
  for (const link of document.querySelectorAll("#channels [data-channel]")) {
    const before = link.parentElement.querySelector(":scope > .attention");
    const html = signs[link.dataset.channel];
    const sign = html && new DOMParser().parseFromString(html, "text/html").querySelector(".attention");
    if (before && sign) {
      before.replaceChildren(...sign.childNodes); // it may have the focus
    } else if (sign) {
      link.after(sign);
    } else {
      before?.contains(document.activeElement) && link.focus({ preventScroll: true });
      before?.remove();
    }
  }
}

let [asks, newest] = [0, 0]; // requests so far, and the latest one whose reply is shown

async function ask() {
  if (document.hidden) {
    return;
  }
  const { channel, show, source, top, news, announces } = feed.dataset;
  const asked = new URLSearchParams({ channel, show, source, posts: around() });
  if (announces !== undefined) {
    asked.set("before", top);
  }
  const before = settled();
  const turn = (asks += 1);
  try {
    const reply = await fetch(`${news}?${asked}`);
    if (!reply.ok) {
      return;
    }
    hasWaiting() && sendAll(); // the server is there again, of which a browser with a network knows nothing
    const told = await reply.json();
    if (turn < newest) {
      return;
    }
    newest = turn;
    hasWaiting() || showCounts(told.unread); // those after what waits come with its reply
    showOnward();
    showSigns(told.signs);
    if (before && before === settled()) {
      showStates(told.states);
    }
    if (told.new && feed.classList.contains("empty") && !document.activeElement.matches("input")) {
      location.reload();
    } else if (told.new) {
      bar.querySelector("a").textContent = told.text;
      bar.hidden = false;
    }
  } catch {
    // The network is unavailable; the next turn tries again.
  }
}

let source = null;

/** Listen while the page is visible: browsers allow only a few connections for all pages of a server. */
function listen() {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource(feed.dataset.live);
    source.addEventListener("message", ask);
    source.addEventListener("open", ask);
  }
}

export function watchNews() {
  if (!feed || !bar || !feed.dataset.news) {
    return;
  }
  setInterval(ask, PAUSE);
  addEventListener("undone", ask);
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => source?.close());
  listen();
}

const STORED = "branches";
const LATER = 1000; // milliseconds until the counts of a branch follow that of its channel
const opened = new Set();

function remember() {
  try {
    localStorage.setItem(STORED, JSON.stringify([...opened]));
  } catch {
    // The browser keeps nothing; the branches are folded on the next page.
  }
}

function recall() {
  try {
    for (const path of JSON.parse(localStorage.getItem(STORED) || "[]")) {
      opened.add(path);
    }
  } catch {
    // As above.
  }
}

const place = ({ pathname, search }) => `${pathname} ${new URLSearchParams(search).get("channel") ?? ""}`;

/** The lines of the channel list that are shown, or would be in a wider window: channels, and unfolded ones' feeds. */
function linesBeside() {
  const lines = [...document.querySelectorAll("#channels a:is([data-channel], [data-feed])")];
  const isShown = document.getElementById("channels")?.checkVisibility();
  return isShown ? lines.filter((one) => one.checkVisibility()) : lines;
}

/** Arrows walk through the lines of the channel list, and unfold and fold a channel; so does Space on its sign. */
function walk(event) {
  if (event.key === " " && event.target.matches("[data-branch]")) {
    event.preventDefault();
    fold(event.target, event.target.ariaExpanded !== "true");
    return;
  }
  const lines = linesBeside();
  const at = lines.indexOf(event.target);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const isOpening = { ArrowRight: true, ArrowLeft: false }[event.key];
  if (at < 0 || (step === undefined && isOpening === undefined) || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  }
  event.preventDefault();
  event.stopPropagation(); // in posts, users may have given them other actions
  const line = event.target.closest("#channels > ul > li");
  const unfold = line.querySelector("[data-branch]");
  if (step) {
    lines[at + step]?.focus();
  } else if (unfold && (unfold.ariaExpanded === "true") !== isOpening) {
    line.querySelector("[data-channel]").focus();
    fold(unfold, isOpening);
  }
}

/** The line of this page's feed in an unfolded channel. */
export function feedHere() {
  return [...document.querySelectorAll("#channels [data-feed]")].find((one) => place(one) === place(location));
}

/**
 * The next or previous line of the channel list that has unread posts, a channel or an unfolded one's feed. Behind the
 * last line, the first channel comes.
 */
function lineAhead(step) {
  const lines = linesBeside();
  const here = lines.indexOf(feedHere() ?? lines.find((one) => one.matches("[aria-current]")));
  const before = lines.slice(0, Math.max(here, 0));
  const again = before.filter((one) => one.dataset.channel !== "global");
  const others = step > 0 ? [...lines.slice(here + 1), ...again] : before.reverse();
  return others.find((one) => one.querySelector(".count:not([hidden])"));
}

/** Open that line, at that place of its page; false if there is none. */
export function turnTo(step, at = "") {
  const found = lineAhead(step);
  if (found) {
    found.hash = at;
    found.click();
  }
  return Boolean(found);
}

let isCounted = false; // whether the channel of the page's feed has shown a number

/**
 * Name at the end of a feed's posts the line to which keys go on from there: the next one of an unfolded channel, or else
 * the channel itself, while others of its posts are unread. Returns the link, also that of other pages; null for none.
 */
export function showOnward() {
  const [onward, own] = [".onward", "#channels [data-channel][aria-current]"].map((one) => document.querySelector(one));
  if (onward && own && feed.dataset.source) {
    isCounted ||= countOf(own) > 0;
    const isOwn = place(onward) === place(own);
    const isLeft = isCounted ? countOf(own) > document.querySelectorAll(".post:not(.is-read)").length : isOwn;
    const isEnded = isOwn && !isLeft && feed.dataset.channel !== "global";
    const next = isLeft && !feedHere() ? own : (feedHere() || isEnded) && lineAhead(1);
    if (next) {
      const [name, count] = onward.querySelectorAll("span");
      [onward.href, name.textContent] = [next.href, next.querySelector(".name").textContent];
      [onward.hash, count.hidden, count.textContent] = ["first", !countOf(next), next.querySelector(".count").firstChild.textContent];
    }
    onward.hidden = !next && (onward.hidden || (isOwn && !isLeft));
  }
  return onward?.hidden ? null : onward;
}

const countOf = (line) => Number(line?.querySelector(".count:not([hidden]) [data-count]")?.dataset.count ?? 0);

/** Say that no other channel has unread posts, if that is so; All counts those of channels without a count, too. */
export function tellLast() {
  const [all, ...lines] = document.querySelectorAll("#channels [data-channel]");
  const here = lines.find((one) => one.matches("[aria-current]"));
  const isLast = !lines.some((one) => one !== here && one.querySelector(".count:not([hidden]), .mark"));
  if (isLast && all?.dataset.channel === "global" && countOf(all) <= countOf(here)) {
    tellNothing("last");
  }
}

/** Say that no post follows, and which key opens the next channel with unread posts; All lists those of all channels. */
export function tellNoMore() {
  const { end, onward } = document.getElementById("channels").dataset;
  const [key] = document.querySelector("[data-act=nextChannel]")?.dataset.key.split("|") ?? [];
  const next = feed?.dataset.channel !== "global" && lineAhead(1)?.querySelector(".name").textContent;
  tellEnd(key && next ? onward.replace("{key}", key).replace("{channel}", () => next) : end);
}

async function fetchedBranch(link) {
  const reply = await fetch(`${link.href}?part=1`);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  return reply.ok && page.querySelector(".branch");
}

const named = (branch) => [...branch.querySelectorAll("a")].map((one) => `${place(one)} ${one.querySelector(".name").textContent}`).join();

/** Put a branch's counts, signs and links into the lines for the same feeds; these stay, and their icons aren't asked for again. */
function recount(lines, branch) {
  [...branch.children].forEach((now, at) => {
    lines[at].className = now.className;
    lines[at].querySelectorAll(".count, .attention").forEach((one) => one.remove());
    const [link, { href }] = [lines[at], now].map((one) => one.querySelector("a"));
    link.href = href; // with its unread posts, or with all
    link.append(...now.querySelectorAll(".count, .attention"));
  });
}

/** Show the feeds of a channel; the line that had the focus has it again, or the channel if that feed has left it. */
function put(link, branch) {
  const before = link.parentElement.querySelector(".branch");
  if (before && named(before) === named(branch)) {
    recount([...before.children], branch);
    showOnward();
    return;
  }
  const focused = before?.contains(document.activeElement) && document.activeElement.dataset.feed;
  before?.remove();
  link.parentElement.append(branch);
  feedHere()?.setAttribute("aria-current", "page");
  showOnward();
  if (focused) {
    (branch.querySelector(`[data-feed="${focused}"]`) ?? link.parentElement.querySelector("[data-channel]")).focus({ preventScroll: true });
  }
}

/** Keep them for this tab's next pages, where `unfolded.js` shows them at once. */
function keep(link, branch) {
  try {
    sessionStorage.setItem(`branch ${document.getElementById("channels").dataset.user} ${link.pathname}`, branch.outerHTML);
  } catch {
    // The browser keeps nothing.
  }
}

async function showBranch(link) {
  const branch = await fetchedBranch(link);
  if (branch && link.ariaExpanded === "true") {
    keep(link, branch);
    put(link, branch);
  }
}

function followCount(link) {
  const count = link.parentElement.querySelector("[data-count]");
  let waiting = 0;
  const follow = () => {
    waiting = 0;
    if (link.ariaExpanded === "true") {
      showBranch(link).catch(() => {});
    }
  };
  new MutationObserver(() => (waiting ||= setTimeout(follow, LATER))).observe(count, { characterData: true, childList: true, subtree: true });
}

function fold(link, isOpen) {
  link.ariaExpanded = String(isOpen);
  opened[isOpen ? "add" : "delete"](new URL(link.href).pathname);
  remember();
  if (isOpen) {
    showBranch(link).catch(() => isLeaving() || location.assign(link.href));
  } else {
    link.parentElement.querySelector(".branch")?.remove();
  }
}

// A feed that is dragged to a channel moves there; with Ctrl, it is followed there, too.
const BUILT_IN = ["global", "saved", "notifications"];
let dragged = null; // the link of the feed

function targetOf(event) {
  const channel = event.target.closest("#channels li")?.closest("#channels > ul > li")?.querySelector("[data-channel]");
  const isOther = channel && dragged && channel.dataset.channel !== dragged.closest(".branch").dataset.uid;
  return isOther && !BUILT_IN.includes(channel.dataset.channel) ? channel : null;
}

function showNote(note) {
  document.querySelector(".moved")?.remove();
  (document.querySelector(".notes") ?? document.querySelector("main")).append(note);
}

function unmark() {
  document.querySelector("#channels .target")?.classList.remove("target");
}

/** Show what a change of feeds did, with its undo, and bring counts and branches in line with it. */
function showMoved(notice) {
  document.querySelector("#done p")?.toggleAttribute("hidden", true); // of an earlier action
  showNote(notice);
  showCounts(JSON.parse(notice.dataset.counts));
  for (const link of document.querySelectorAll("#channels [data-branch][aria-expanded=true]")) {
    showBranch(link).catch(() => {});
  }
  notice.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = new URLSearchParams(new FormData(event.target, event.submitter));
    change(event.target.action, body).catch(() => isLeaving() || event.target.submit());
  });
}

const away = new Set(); // feeds of this list that were moved to another channel
let last = "";

async function change(address, body) {
  const reply = await fetch(address, { method: "POST", body });
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const [notice, alert] = [page.querySelector(".moved"), page.querySelector("[role=alert]")];
  if (notice) {
    const marks = document.getElementById("change");
    const [open, isMove] = [feed?.dataset.channel, body.get("do") === "move"];
    const moved = isMove ? body.get("feed") : body.has("do") ? "" : last; // an undo is that of the last move
    if (marks && moved.startsWith(`${open}/`)) {
      isMove ? away.add(moved) : away.delete(moved);
      marks.elements.channel.value = away.size ? "global" : open; // posts of this list are in another channel now, or here again
      const all = document.getElementById("mark-all")?.elements;
      if (all && moved === `${open}/${all.source.value}`) {
        all.channel.value = isMove ? body.get("target") : open;
      }
    }
    last = isMove ? moved : "";
    showMoved(document.adoptNode(notice));
  } else {
    complain(alert?.textContent ?? reply.statusText);
  }
}

function complain(text) {
  const said = document.createElement("p");
  [said.className, said.textContent] = ["bar said moved", text];
  said.setAttribute("role", "alert");
  showNote(said);
}

function prepareDrags(channels) {
  channels.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.("[data-feed]") ?? null;
    if (dragged) {
      event.dataTransfer.effectAllowed = "copyMove";
    }
  });
  channels.addEventListener("dragover", (event) => {
    unmark();
    const channel = targetOf(event);
    if (channel) {
      event.preventDefault();
      event.dataTransfer.dropEffect = event.ctrlKey ? "copy" : "move";
      channel.classList.add("target");
    }
  });
  channels.addEventListener("drop", (event) => {
    const channel = targetOf(event);
    if (channel) {
      event.preventDefault();
      const { uid, move, tokenField, token } = dragged.closest(".branch").dataset;
      const fields = { feed: `${uid}/${dragged.dataset.feed}`, target: channel.dataset.channel, part: "1" };
      const act = event.ctrlKey ? "copy" : "move";
      change(move, new URLSearchParams({ ...fields, do: act, [tokenField]: token })).catch((problem) => complain(problem.message));
    }
  });
  channels.addEventListener("dragend", () => {
    unmark();
    dragged = null;
  });
}

function prepareBranch(link) {
  if (link.role === "button") {
    return;
  }
  [link.role, link.ariaExpanded] = ["button", "false"];
  followCount(link);
  if (opened.has(new URL(link.href).pathname)) {
    link.ariaExpanded = "true";
    showBranch(link).catch(() => {});
  }
}

const MARGIN = 80; // pixels below the open line, for its next ones

/** Bring the open channel or feed into view, and keep the list's place for the next page; "All feeds" moves nothing. */
function keepPlace(channels) {
  const open = (feedHere() ?? channels.querySelector("li [aria-current]"))?.getBoundingClientRect();
  const end = document.getElementById("listening")?.getBoundingClientRect().top ?? innerHeight;
  if (open && (open.top < channels.getBoundingClientRect().top || open.bottom > end - MARGIN)) {
    channels.scrollTop += open.top - end / 2;
  }
  addEventListener("pagehide", () => sessionStorage.setItem("beside", channels.scrollTop));
}

// Unfolds a channel to its feeds in the list of channels. Which ones are unfolded is remembered in this browser.
export function prepareBranches() {
  recall();
  const channels = document.getElementById("channels");
  if (channels) {
    prepareDrags(channels);
  }
  channels?.addEventListener("click", (event) => {
    const link = event.target.closest("[data-branch]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      fold(link, link.ariaExpanded !== "true");
    }
  });
  channels?.addEventListener("keydown", walk);
  feedHere()?.setAttribute("aria-current", "page");
  showOnward();
  if (channels) {
    keepPlace(channels);
  }
  const prepare = () => document.querySelectorAll("#channels > ul > li > [data-branch]").forEach(prepareBranch);
  prepare();
  for (const list of document.querySelectorAll("#channels > ul")) {
    new MutationObserver(prepare).observe(list, { childList: true }); // channels come by a search or an import
  }
}
