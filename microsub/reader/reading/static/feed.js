// The list of posts: the focus moves from post to post, more posts are loaded, and each position has an address.
// The pattern is https://www.w3.org/WAI/ARIA/apg/patterns/feed/.
import { article, canLeave, change, changeByHand, feed, isLeaving, isOn, keptPart, markAll, showState, tell, tellNothing } from "./marks.js";
import { showOnward, tellLast, tellNoMore } from "./news.js";
import { changeText, fetchAhead, fillText, pageDown, pageOf, rememberList, showFullText, showWhole, visitedPost, visits } from "./post.js";
import { groupByDay, localiseTimes } from "./times.js";

function posts() {
  return [...document.querySelectorAll(".post")];
}

/** Whether a post isn't scrolled past; the last lines of a long one don't count. */
function isAhead(post) {
  const { bottom, height } = post.getBoundingClientRect();
  return bottom > Math.min(80, height / 2);
}

const isSeen = (post) => isAhead(post) && post.getBoundingClientRect().top < innerHeight;

let last = null; // the post that had the focus last
let isMoved = false; // whether the wheel or a finger has moved the page since

/** The post that has the focus, or had it before a press beside the posts, unless it was scrolled out of view. */
export function place() {
  const focused = document.activeElement.closest(".post");
  const here = focused ?? last;
  return here?.isConnected && ((focused && !isMoved) || isSeen(here)) ? here : null;
}

/** The post of the place that is in view, or the first one in view. */
function inView() {
  const here = place();
  return here && isSeen(here) ? here : posts().find(isSeen);
}

/** The post of the place, or the first one in view. */
function current() {
  return place() ?? posts().find(isAhead) ?? null;
}

/** The same; without a place before, it becomes the place. */
function chosen() {
  const post = current();
  if (!post?.contains(document.activeElement)) {
    post?.focus({ preventScroll: true });
  }
  return post;
}

/** Go to a post: a line of a list stays among the others, a whole post begins at the top. */
function go(post, block = post?.matches(".row:not(.is-open)") ? "nearest" : "start") {
  if (post) {
    post.focus({ preventScroll: true });
    jumping();
    post.scrollIntoView({ block, behavior: "instant" });
  }
}

function number() {
  const all = posts();
  const size = document.querySelector("#older [rel=next]") ? -1 : all.length;
  if (feed.dataset.group === "day") {
    groupByDay(all);
  }
  all.forEach((post, place) => {
    post.setAttribute("aria-posinset", place + 1);
    post.setAttribute("aria-setsize", size);
  });
  rememberList(all.map((post) => post.dataset.id));
}

// --- the place in the list, for pages that show it anew

const MOST_AFTER = 30; // posts from which the place is found: those that are read may have left the list
const MOST_PLACES = 10;

/** The number of the place among all posts, or of the first one in view; -1 at the beginning of the page. */
const placeAmong = (all) => all.indexOf(place() ?? (scrollY > 0 ? all.find(isAhead) : null));

/** The posts from the place on, or from the first one in view, and then those before it; how far below the window's top they begin; and whether the first is open. */
function placeHere() {
  const all = posts();
  const at = placeAmong(all);
  const before = all.slice(Math.max(0, at - MOST_AFTER), at).reverse(); // at the end of a list, none may come after it
  const ids = [...all.slice(at, at + MOST_AFTER), ...before].map((post) => post.dataset.id);
  return at < 0 ? [[]] : [ids, all[at].getBoundingClientRect().top, all[at].matches(".is-open.is-read")];
}

const placesLeft = () => JSON.parse(sessionStorage.getItem("places") || "[]").filter(([path]) => path !== location.href);

/** Remember the place for the browser's way back, and for a reload. */
function rememberPlace() {
  sessionStorage.setItem("places", JSON.stringify([[location.href, ...placeHere()], ...placesLeft()].slice(0, MOST_PLACES)));
}

// --- what a list of unread posts showed, for the way back to it: posts that have been read since are still there

const MOST_LISTS = 3;
const { user } = document.getElementById("channels")?.dataset ?? {};
const listsLeft = () => JSON.parse(sessionStorage.getItem("lists") || "[]");

/** A post as it was before it was opened. */
function folded(post) {
  const copy = post.cloneNode(true);
  copy.querySelector("[data-body]")?.dataset.cut !== undefined && fold(copy);
  return copy;
}

/** Remember the posts of the page at this address. */
function rememberPosts() {
  const shell = feed.cloneNode();
  shell.append(...posts().filter((post) => (post.dataset.place ?? start) === location.href).map(folded));
  try {
    const others = listsLeft().filter(([path]) => path !== location.href);
    sessionStorage.setItem("lists", JSON.stringify([[location.href, shell.outerHTML, user, pressed("view")?.value], ...others].slice(0, MOST_LISTS)));
  } catch {
    sessionStorage.removeItem("lists"); // they are too long for the browser
  }
}

/** On the way back, show those posts again that have been read since, each in its place. */
function restorePosts() {
  const isBack = sessionStorage.getItem("returning") || performance.getEntriesByType("navigation")[0]?.type === "back_forward";
  const [, html = "", of, view] = (isBack && listsLeft().find(([path]) => path === location.href)) || [];
  if (of !== user || (!feed.matches(".empty") && view !== pressed("view")?.value)) {
    return;
  }
  const shell = new DOMParser().parseFromString(html, "text/html").getElementById("feed");
  const all = [...(shell?.querySelectorAll(".post") ?? [])];
  const here = ({ id }) => document.getElementById(id);
  const isWhole = !document.querySelector("#older [rel=next]");
  const seen = visits(); // others are missing for another reason: their feed was moved, say
  const known = (isWhole ? all : all.slice(0, all.findLastIndex(here) + 1)) // what follows may have moved to the next page
    .filter((post) => here(post) || post.matches(".is-read") || seen.includes(post.dataset.id));
  if (known.length && feed.matches(".empty")) {
    feed.replaceChildren();
    [...shell.attributes].forEach(({ name, value }) => feed.setAttribute(name, value));
  }
  let before = null;
  for (const post of known) {
    const [shown, next] = [here(post), before ? null : known.map(here).find(Boolean)];
    if (!shown) {
      before ? before.after(post) : next ? next.before(post) : feed.append(post);
      showState(post.dataset.id, "read", true);
    }
    before = shown ?? post;
  }
  let heading = "";
  for (const group of feed.querySelectorAll(".group")) {
    group.textContent === heading ? group.remove() : (heading = group.textContent);
  }
}

const SURE = 10; // unread posts at the beginning of a list that its first page surely has, with those that are read, too
const ABOVE = 5; // posts above the place that a page begins with

const timeOf = (post) => Date.parse(post.querySelector(":is(.from, .byline) time")?.dateTime) / 1000;
const pressed = (name) => document.querySelector(`.looks [name=${name}][aria-pressed=true]`);

/** Let the address of a list begin with the place, at a moment, if that isn't among the `most` first posts. */
function reach(url, most) {
  const all = posts();
  const at = placeAmong(all);
  const isInside = ["after", "before", "at"].some((name) => new URL(start).searchParams.has(name));
  const times = [all[Math.max(0, at - ABOVE)], all[at]].map((post) => post && timeOf(post)).filter(Boolean);
  if (times.length && (at >= most || isInside) && feed.dataset.channel !== "saved" && feed.dataset.news) {
    url.searchParams.set("at", Math[pressed("order")?.value === "oldest" ? "min" : "max"](...times));
  }
}

/** Keep the place for the next page: the same posts in another view, or with those that are read. */
function keepPlace() {
  sessionStorage.setItem("place", JSON.stringify(placeHere().slice(0, 1)));
}

/** Keep it for another view. A list of unread posts in which none is left becomes that of all, since it would be empty. */
function keepInView({ target, submitter }) {
  keepPlace();
  const { back } = target.elements;
  if (submitter?.name === "view") {
    const url = new URL(back.value, location.href);
    if (feed.dataset.show === "unread" && !document.querySelector(".post:not(.is-read), #older [rel=next]")) {
      url.searchParams.set("show", "all");
    }
    reach(url, submitter.dataset.posts); // of a page
    back.value = url.pathname + url.search;
  }
}

/** Keep it with the posts that are read, or without them. */
function keepShowing({ currentTarget }) {
  keepPlace();
  const url = new URL(currentTarget.href);
  reach(url, currentTarget.dataset.show === "all" ? SURE : pressed("view").dataset.posts);
  currentTarget.href = url;
}

/** The first unread post, since a feed's page shows those that are read, too; or the first one. */
const firstToRead = () => posts().find((post) => !isOn(post.dataset.id, "read")) ?? posts()[0];

/** Go to the post at which this page goes on, if it shows a list again; on the way back it stands where it stood. */
function goBack() {
  const visited = visitedPost();
  const isBack = visited || ["back_forward", "reload"].includes(performance.getEntriesByType("navigation")[0]?.type);
  const [, ...back] = JSON.parse(sessionStorage.getItem("places") || "[]").find(([path]) => path === location.href) ?? [];
  const [ids = [], top, isOpen] = JSON.parse(sessionStorage.getItem("place")) || (isBack ? back : []);
  sessionStorage.removeItem("place");
  const post = visited || ids.map(article).find(Boolean);
  go(post || (location.hash === "#first" ? firstToRead() : null));
  if (post && top !== undefined) {
    history.scrollRestoration = "manual"; // the browser would measure from the top, where posts may have left the list
    stand(post, top);
    if (isOpen && post.dataset.id === ids[0] && isOn(ids[0], "read")) {
      open(post).then(() => stand(post, top));
    }
  }
}

/**
 * Scroll so that a post begins so far below the window's top, or if it can't be seen there, in the middle; again in the
 * next frames, when the posts above it are laid out.
 */
function stand(post, top, frames = 4) {
  jumping();
  scrollBy({ top: post.getBoundingClientRect().top - top, behavior: "instant" });
  if (!isSeen(post)) {
    post.scrollIntoView({ block: "center", behavior: "instant" });
  } else if (frames) {
    requestAnimationFrame(() => stand(post, top, frames - 1));
  }
}

const MOST_KEPT = 10;
const kept = new Map(); // post → its whole text, of those that were closed last

function close(post) {
  const body = post.querySelector("[data-body]");
  kept.delete(post);
  kept.set(post, [...body.childNodes]);
  if (kept.size > MOST_KEPT) {
    kept.delete(kept.keys().next().value);
  }
  fold(post);
}

/** The date of an open line leads to the post's own page, as in other views; its title closes it. */
function linkDate(post, address) {
  const date = post.querySelector(".from").lastElementChild;
  const link = document.createElement("a");
  link.href = address;
  date.replaceWith(link);
  link.append(date);
}

function fold(post) {
  const date = post.querySelector(".from > a:last-child");
  date?.replaceWith(...date.childNodes);
  const body = post.querySelector("[data-body]");
  body.innerHTML = body.dataset.cut;
  delete body.dataset.cut;
  post.classList.remove("is-open");
  post.querySelector("[data-open]").ariaExpanded = "false";
}

const fromKept = new WeakSet(); // posts that were shown as this browser has kept them: no full text comes with that

let opening = null; // the post that was opened last, perhaps still being fetched

let underway = null; // the opening of that post, for what waits for it

/**
 * Open or close a post; a second time while it is fetched waits for it. A post that is shown
 * whole is fetched only if what its page has below the text `isWanted`.
 */
function open(post, block = "nearest", isWanted = post.matches(".row")) {
  if (post.ariaBusy !== "true" || kept.has(post)) {
    underway = openOrClose(post, block, isWanted);
  }
  return underway;
}

async function openOrClose(post, block, isWanted) {
  const [body, link] = [post.querySelector("[data-body]"), post.querySelector("[data-open]")];
  if (body.dataset.cut !== undefined) {
    close(post);
    jumping();
    post.scrollIntoView({ block: "nearest", behavior: "instant" });
    return;
  }
  if (isWanted || body.querySelector(".more")) {
    const whole = kept.get(post);
    opening = post;
    let page = null;
    if (!whole) {
      post.ariaBusy = "true";
      const fetched = await pageOf(link.href);
      page = fetched ?? (await keptPart(`#${post.id}`));
      post.ariaBusy = "false";
      fromKept[page && !fetched ? "add" : "delete"](post);
    }
    if (post.matches(".row") && opening !== post) {
      return; // the next one was opened meanwhile
    }
    const cut = body.innerHTML;
    if (whole) {
      body.replaceChildren(...whole);
    } else if (!showWhole(page, body)) {
      if (!isLeaving() && canLeave("unkept")) {
        location.assign(link.href); // that page says why
      }
      return;
    }
    body.dataset.cut = cut;
    fillText(post).then((isHere) => isHere || kept.delete(post));
    if (post.matches(".row")) {
      document.querySelectorAll(".row.is-open").forEach(close);
      post.classList.add("is-open");
      linkDate(post, link.href);
      link.ariaExpanded = "true";
      const isAbove = post.getBoundingClientRect().top < 0; // since the one that is closed stood above it
      post.scrollIntoView({ block: isAbove ? "start" : block, behavior: "instant" });
      const next = posts()[posts().indexOf(post) + 1];
      if (!kept.has(next)) {
        fetchAhead(next);
      }
    }
  }
  if (!isOn(post.dataset.id, "read")) {
    change("read", post.dataset.id);
  }
}

// --- further posts

let loading = null;

async function loadOlder() {
  const link = document.querySelector("#older [rel=next]");
  if (!link || loading) {
    return loading;
  }
  feed.setAttribute("aria-busy", "true");
  loading = fetch(link.href)
    .then(async (reply) => {
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const next = page.getElementById("older");
      if (!reply.ok || !next) {
        return;
      }
      let moved = null; // the heading of posts that are here already
      for (const post of page.querySelectorAll("#feed > article")) {
        if (document.getElementById(post.id)) {
          moved = post.querySelector(".group") || moved;
        } else {
          if (moved && !post.querySelector(".group")) {
            post.prepend(moved);
          }
          moved = null;
          post.dataset.place = link.href;
          localiseTimes(post);
          const heading = post.querySelector(".group");
          if (heading && heading.textContent === [...feed.querySelectorAll(".group")].at(-1)?.textContent) {
            heading.remove(); // the day or feed goes on
          }
          feed.append(post);
          if (post.dataset.id) { // not a placeholder
            scrolling?.watch(post);
          }
        }
      }
      document.getElementById("older").replaceChildren(...next.childNodes);
      showOnward();
      number();
      if (feed.querySelector("form[action$='/listen']")) {
        import("./listening.js").then(({ prepareListening }) => prepareListening());
      }
      ahead.disconnect();
      ahead.observe(document.getElementById("older"));
    })
    .catch(() => {})
    .finally(() => {
      loading = null;
      feed.setAttribute("aria-busy", "false");
    });
  return loading;
}

const ahead = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && loadOlder(), {
  rootMargin: "1500px",
});

/** Set the address to that of the page with which the post in view was loaded. */
function keepAddress() {
  const first = posts().find(isAhead);
  const place = (first && first.dataset.place) || start;
  if (place !== location.href) {
    history.replaceState(history.state, "", place);
    rememberList(posts().map((post) => post.dataset.id));
  }
}
const start = location.href;

// --- marks while scrolling, if the user has chosen them

let scrolling = null;

/** What scrolls next isn't the user. */
const jumping = () => scrolling?.jumping();

// --- actions of keys

/** Whether all posts of the page are being marked, or the next channel is being opened. */
let isFinishing = false;
addEventListener("pageshow", () => (isFinishing = false));

/** Mark a post that is shown in full, and is left. */
async function leave(post) {
  if (post && !post.matches(".row") && !isOn(post.dataset.id, "read")) {
    await change("read", post.dataset.id);
  }
}

/** The next unread post, on this page, on further ones, or in the next channel. */
async function nextUnread(after) {
  const all = posts();
  const here = after || place();
  const left = leave(here);
  const first = here ? all.indexOf(here) + 1 : all.findIndex((post) => post.getBoundingClientRect().top >= 0);
  const next = (first < 0 ? [] : all.slice(first)).find((post) => !isOn(post.dataset.id, "read"));
  if (next) {
    go(next);
  } else if (document.querySelector("#older [rel=next]")) {
    await loadOlder();
    if (posts().length > all.length) {
      await nextUnread(all.at(-1));
    }
  } else {
    await left;
    if (canLeave()) {
      const onward = showOnward();
      onward ? onward.click() : tellLast();
    }
  }
}

/** Open the line or card in view, page down in it, and at its end open the next unread one. */
async function readOn() {
  const isWaiting = (post) => post?.matches(".row:not(.is-open, .is-read)");
  const at = inView();
  if (isWaiting(at)) {
    go(at);
    await open(at);
  } else if (!pageDown(at)) {
    await nextUnread(at);
    const next = document.activeElement.closest(".post");
    if (next !== at && isWaiting(next)) {
      await open(next, "start");
    }
  }
}

/** Go some posts down or up the list, from the first post in view if there is no place. */
async function move(step) {
  const at = posts().indexOf(place());
  if (step > 0 && at === posts().length - 1) {
    await loadOlder();
    if (at === posts().length - 1 && !document.querySelector("#older [rel=next]")) {
      tellNoMore();
    }
  }
  go(at < 0 ? current() : posts()[at + step]);
}

/** Move; where a line is open, open the one that is reached. */
async function turn(by, step) {
  const from = place();
  await by(step);
  const reached = document.activeElement.closest(".row:not(.is-open)");
  if (reached && reached !== from && feed.querySelector(".row:is(.is-open, [aria-busy=true])")) {
    await open(reached, "start"); // titles stand at the same height, one after the other
  }
}

/** Mark or save the post of the place, or take that back. */
function turnOver(name, opposite) {
  const id = chosen()?.dataset.id;
  return id && changeByHand(isOn(id, name) ? opposite : name, id);
}

/** The posts of the page on which one is, without those that were loaded ahead; at the end of the list, of its last one. */
function postsOfPage() {
  const [all, older] = [posts(), document.getElementById("older")];
  const isEnd = !older.querySelector("[rel=next]") && older.getBoundingClientRect().top < innerHeight;
  const at = (!isEnd && inView()) || all.at(-1);
  return all.filter((post) => post.dataset.place === at.dataset.place);
}

const unreadOf = (all) => all.map((post) => post.dataset.id).filter((id) => !isOn(id, "read"));

/** Mark what was made unread again in a list whose page was empty, and has no button for all; null if that isn't so. */
export function markListed() {
  const unread = feed?.dataset.show === "unread" && !document.querySelector("button[data-act=all]") ? unreadOf(posts()) : [];
  return unread.length ? change("all", unread.join()) : null;
}

/** Mark the posts of the page, and go on to the next page, or the next channel; true if that is another page of the browser. */
async function finishPage() {
  const page = posts().length ? postsOfPage() : [];
  const unread = unreadOf(page);
  const isDone = !unread.length || await change("all", unread.join());
  const isLast = page.at(-1) === posts().at(-1);
  if (isDone && isLast) {
    await loadOlder();
  }
  const next = posts()[posts().indexOf(page.at(-1)) + 1];
  if (isDone && page.length && next) {
    go(next, "start");
  } else if (isDone && !document.querySelector("#older [rel=next]") && navigator.onLine) {
    const onward = showOnward();
    onward ? onward.click() : unread.length || tellLast();
    return Boolean(onward);
  }
  return false;
}

export const atPosts = {
  next: () => turn(move, 1),
  previous: () => turn(move, -1),
  down: () => move(1),
  up: () => move(-1),
  unread: () => turn(nextUnread),
  finish: async () => {
    // A second press would mark the same posts again, and be cut off by the next page.
    if (isFinishing) {
      return;
    }
    const all = document.querySelector("button[data-act=all]");
    if (all && all.form.id !== "mark-all") {
      all.hidden ? tellNothing("allRead") : all.click(); // found posts are marked by name, and no channel comes after them
      return;
    }
    isFinishing = true;
    const listed = markListed();
    const isDone = all ? await markAll() : !listed || await listed;
    const onward = showOnward(); // older posts that have come meanwhile bring another one
    isFinishing = Boolean(isDone && navigator.onLine && onward);
    if (isFinishing) {
      onward.click();
    } else if (!all && !listed && canLeave()) {
      feed?.dataset.news ? tellLast() : tellNothing("allRead");
    }
  },
  page: async () => {
    if (!isFinishing) { // a second press would mark the next page, too
      isFinishing = true;
      isFinishing = await finishPage().catch(() => false);
    }
  },
  on: readOn,
  open: () => {
    const post = chosen();
    return post && open(post);
  },
  fullText: async () => {
    const post = current();
    if (fromKept.has(post)) { // perhaps its page can be fetched now
      post.querySelector("[data-body]").dataset.cut !== undefined && fold(post);
      kept.delete(post);
    }
    const isClosed = post?.matches(".row:not(.is-open)");
    if (post && post.querySelector("[data-body]").dataset.cut === undefined) {
      go(post);
      await open(post, "nearest", true);
    }
    if (fromKept.has(post)) {
      tell("offline");
    } else if (!(isClosed && post.querySelector("a[data-full-text][href$=own]"))) { // else it has come by itself
      showFullText(post);
    }
  },
  original: () => current()?.querySelector("[data-original]")?.click(),
  answer: () => {
    const post = chosen();
    const link = post?.querySelector("[data-answer]");
    if (link) {
      location.href = link.href;
    } else if (post) {
      tell("answerless");
    }
  },
  read: () => turnOver("read", "unread"),
  save: () => turnOver("save", "unsave"),
  above: () => {
    const post = chosen();
    return post && change("above", post.dataset.id);
  },
};

const COMMON = 48; // pixels that two screens of lines have in common

/** Go a screen of lines down or up, to the first one in view then, or at the end of the page to its last one; an open line stays. */
function turnPage(step) {
  const [before, here] = [scrollY, place()];
  scrollBy({ top: step * (innerHeight - COMMON), behavior: "instant" });
  if (!here?.matches(".is-open") || !isSeen(here)) {
    const first = posts().find((post) => post.getBoundingClientRect().top >= 0);
    (scrollY === before ? posts().at(step > 0 ? -1 : 0) : first)?.focus({ preventScroll: true });
  }
}

function insideFeed(event) {
  const all = posts();
  const at = all.indexOf(document.activeElement.closest(".post"));
  const step = { PageDown: 1, PageUp: -1 }[event.key];
  if (event.altKey || event.metaKey || event.shiftKey || (at < 0 && document.activeElement !== document.body)) {
    return;
  }
  if (step && !event.ctrlKey && all[0].matches(".row")) {
    event.preventDefault();
    turnPage(step);
  } else if (at >= 0 && step && all[at + step] && !event.ctrlKey) {
    event.preventDefault();
    go(all[at + step]);
  } else if (at >= 0 && event.ctrlKey && (event.key === "End" || event.key === "Home")) {
    event.preventDefault();
    const behind = document.querySelector("#older a:not([hidden])") || document.querySelector("footer a");
    const before = document.querySelector(".views a, .views button, .home");
    (event.key === "End" ? behind : before).focus();
  }
}

const MINUTE = 60000; // milliseconds
let today = new Date().toDateString();

/** Name the days anew when one has begun. A timer until midnight would stand still while the computer sleeps. */
function nameDays() {
  const now = new Date().toDateString();
  if (now !== today) {
    today = now;
    number();
  }
}

export function prepareFeed() {
  const isUnread = feed?.dataset.show === "unread";
  isUnread && restorePosts();
  if (!feed || !posts().length) {
    return;
  }
  number();
  feed.addEventListener("focusin", ({ target }) => {
    [last, isMoved] = [target.closest(".post") ?? last, false];
  });
  for (const kind of ["wheel", "touchmove"]) {
    addEventListener(kind, () => (isMoved = true), { passive: true });
  }
  goBack();
  ahead.observe(document.getElementById("older"));
  addEventListener("scrollend", keepAddress);
  addEventListener("pagehide", rememberPlace);
  isUnread && addEventListener("pagehide", rememberPosts);
  setInterval(nameDays, MINUTE);
  document.querySelector(".looks")?.addEventListener("submit", keepInView);
  document.querySelectorAll(".views [data-show]").forEach((link) => link.addEventListener("click", keepShowing));
  addEventListener("keydown", insideFeed);
  document.getElementById("mark-page")?.addEventListener("submit", (event) => {
    event.preventDefault();
    document.querySelector(".marking details").open = false;
    atPosts.page();
  });
  feed.addEventListener("click", (event) => {
    const { id } = event.target.closest("[data-original]")?.closest(".post").dataset ?? {};
    if (id && !isOn(id, "read")) {
      change("read", id); // it is read in the tab that opens
    }
    const link = event.target.closest("[data-open]");
    const row = event.target.closest(".row");
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
    const text = event.target.closest("[data-full-text]");
    if (text && isPlain) {
      event.preventDefault();
      const post = text.closest(".post");
      changeText(text).then(() => text.isConnected || kept.delete(post));
    } else if (link && isPlain && (link.closest(".more") || row || !navigator.onLine)) {
      event.preventDefault();
      const post = link.closest(".post");
      open(post).then(() => post.focus({ preventScroll: true }));
    } else if (row && isPlain && !event.target.closest("a, button, [data-body], .group")) {
      open(row).then(() => row.focus({ preventScroll: true }));
    }
  });
  if (feed.dataset.scrolling === "yes") {
    import("./scrolling.js").then((module) => {
      scrolling = module;
      scrolling.prepareScrolling();
    });
  }
}
