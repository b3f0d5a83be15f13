// A post's own page: opening it marks the post as read, and it leads to the next posts of the list it was opened from.
// A list takes whole texts from it; the page of the next post is fetched in advance.
import { article, canLeave, change, feed, isLeaving, isOn, say, tell } from "./marks.js";
import { tellNoMore } from "./news.js";
import { localiseTimes } from "./times.js";

const post = document.querySelector(".post.whole");
const list = JSON.parse(sessionStorage.getItem("list") || '{"ids": []}');
const FAR = 90; // minimum pixels of a horizontal swipe
const STRAIGHT = 50; // maximum pixels that it may move vertically
const MOST_VISITS = 200;
const SKIMMED = 500; // milliseconds in which a post that is only skimmed is closed again

/** Remember the displayed list, for the pages of its posts. */
export function rememberList(ids) {
  const isWhole = !document.querySelector("#older [rel=next]");
  sessionStorage.setItem("list", JSON.stringify({ ids, path: location.href, show: feed.dataset.show, isWhole }));
}

/** The post at which a list goes on after a visit to one of its posts: that post, or the next one still listed. */
export function visitedPost() {
  const [visited, isBack] = [sessionStorage.getItem("visited"), sessionStorage.getItem("returning")];
  sessionStorage.removeItem("visited");
  sessionStorage.removeItem("returning");
  const isReturn = isBack || performance.getEntriesByType("navigation")[0]?.type === "back_forward";
  const at = list.ids.indexOf(visited);
  return isReturn && at >= 0 && list.path === location.href ? list.ids.slice(at).map(article).find(Boolean) : null;
}

/** The posts whose pages were opened in this tab, the last one first. */
export const visits = () => (sessionStorage.getItem("visits") ?? "").split(" ");

/** Scroll down in a post; false at its end. */
export function pageDown(one) {
  const end = document.getElementById("listening")?.getBoundingClientRect().top ?? innerHeight; // the player covers the rest
  const goesOn = one && one.getBoundingClientRect().bottom > end;
  if (goesOn) {
    scrollBy({ top: end * 0.85, behavior: "instant" });
  }
  return goesOn;
}

const words = new URLSearchParams(location.search).get("q"); // a search, whose words the next posts mark, too
const found = words ? `?${new URLSearchParams({ q: words })}` : "";

function neighbour(step) {
  const at = list.ids.indexOf(post.dataset.id);
  return at < 0 ? undefined : list.ids[at + step];
}

function turn(step) {
  const id = neighbour(step);
  if (id && canLeave()) {
    location.assign(id + found);
  } else if (!id && step > 0 && list.ids.at(-1) === post.dataset.id) {
    list.isWhole ? tellNoMore() : atPost.show(); // where further posts come
  }
}

export const atPost = {
  next: () => turn(1),
  previous: () => turn(-1),
  down: () => turn(1),
  up: () => turn(-1),
  unread: () => turn(1),
  on: () => pageDown(post) || turn(1),
  show: () => document.querySelector("[data-back]").click(),
  fullText: () => showFullText(post),
  above: () => {},
  finish: () => {},
  open: () => {},
};

/** Press what shows the full text of a post, or the text of its feed; say so if there is neither. */
export function showFullText(one) {
  const control = one?.querySelector("[data-full-text]");
  if (control) {
    control.click();
  } else if (one) {
    tell("textless");
  }
}

/** A horizontal swipe opens the next or previous post, unless it scrolls a wide element. */
function prepareTurning() {
  let from = null;
  post.addEventListener("touchstart", (event) => {
    const wide = event.target.closest("pre, table, audio, video");
    from = event.touches.length === 1 && !wide ? event.touches[0] : null;
  }, { passive: true });
  post.addEventListener("touchend", (event) => {
    const to = event.changedTouches[0];
    if (from && Math.abs(to.clientX - from.clientX) > FAR && Math.abs(to.clientY - from.clientY) < STRAIGHT) {
      turn(to.clientX < from.clientX ? 1 : -1);
    }
    from = null;
  }, { passive: true });
}

/** The bar of phones leads to the list, where that was left, and to its next post. */
function prepareWays() {
  const [back, next] = ["[data-back]", "[data-next]"].map((one) => post.querySelector(one));
  back.href = list.path || back.href;
  back.addEventListener("click", (event) => {
    if (canLeave()) {
      sessionStorage.setItem("returning", "yes");
    } else {
      event.preventDefault();
    }
  });
  next.hidden = !list.ids.includes(post.dataset.id);
  next.addEventListener("click", atPost.next);
}

/** Share the post's address with another app, if the device supports that. */
function prepareSharing() {
  const button = document.querySelector("[data-share]");
  if (button && navigator.share) {
    button.hidden = false;
    button.addEventListener("click", () => {
      navigator.share({ title: document.querySelector("h1").innerText, url: button.dataset.share }).catch(() => {});
    });
  }
}

/** Say that a full text is being fetched, until the page with it comes. */
function prepareWaiting() {
  const button = post.querySelector("button[data-full-text]");
  button?.form.addEventListener("submit", (event) => {
    if (button.ariaBusy === "true") {
      event.preventDefault();
    }
    [button.ariaBusy, button.dataset.words] = ["true", button.dataset.words || button.textContent];
    button.textContent = button.dataset.waits;
  });
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted && button?.dataset.words) {
      [button.ariaBusy, button.textContent] = ["false", button.dataset.words];
    }
  });
}

export function preparePost() {
  if (!post) {
    return;
  }
  for (const [name, step] of [["prev", -1], ["next", 1]]) {
    const link = document.querySelector(`.beside [rel=${name}]`);
    const id = neighbour(step);
    link.hidden = !id;
    link.href = id ? id + found : "";
  }
  if (list.show === "unread" && list.ids.includes(post.dataset.id)) {
    post.querySelectorAll("[data-its-feed]").forEach((link) => (link.search += "&show=unread"));
  }
  if (!isOn(post.dataset.id, "read")) {
    change("read", post.dataset.id);
  }
  sessionStorage.setItem("visited", post.dataset.id);
  sessionStorage.setItem("visits", [post.dataset.id, ...visits()].slice(0, MOST_VISITS).join(" "));
  prepareTurning();
  prepareWays();
  prepareSharing();
  prepareWaiting();
  fillText(post);
}

// --- the pages of posts, for a list

let ahead = { address: "", page: null };

/** The page that is the reply to a request, perhaps one that says what is wrong; null if there is none. */
async function fetched(address, options = {}) {
  try {
    const reply = await fetch(address, options);
    const isPage = reply.headers.get("content-type")?.startsWith("text/html");
    return isPage ? new DOMParser().parseFromString(await reply.text(), "text/html") : null;
  } catch {
    return null;
  }
}

/** The page of a post, perhaps fetched before; null if it can't be had. */
export async function pageOf(address) {
  const known = ahead.address === address ? await ahead.page : null;
  ahead = { address: "", page: null };
  return known || fetched(address);
}

/** Fetch the page of the post that is probably opened next, unless the user wants to save data. */
export function fetchAhead(post) {
  const link = post?.querySelector("[data-open]");
  if (link && ahead.address !== link.href && !navigator.connection?.saveData) {
    ahead = { address: link.href, page: fetched(link.href) };
  }
}

/** Put the contents of a post's page into the list; players stay on the page. False if the page has none. */
export function showWhole(page, body) {
  const whole = page?.querySelector("[data-body]");
  if (whole) {
    whole.querySelectorAll("[data-player]").forEach((player) => player.remove());
    localiseTimes(whole);
    body.replaceChildren(...whole.childNodes);
    const chapters = body.querySelector("[data-chapters]");
    if (chapters) {
      import("./play.js").then(({ showChapters }) => showChapters(chapters)).catch(() => {}); // the link stays
    }
  }
  return Boolean(whole);
}

/**
 * Fetch the full text of a post that stays open, if its feed cuts its posts; the text stays if there is none. False if
 * the post was closed meanwhile.
 */
export async function fillText(post) {
  const button = post.querySelector("button[data-at-once]");
  await new Promise((done) => setTimeout(done, button ? SKIMMED : 0));
  if (!button?.isConnected || button.ariaBusy === "true") {
    return true;
  }
  const { form, textContent: words, dataset } = button;
  const sign = form.querySelector("[role=status]"); // for screen readers
  delete dataset.atOnce;
  [button.ariaBusy, button.textContent, sign.textContent] = ["true", dataset.waits, dataset.waits];
  const page = await fetched(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  [button.ariaBusy, button.textContent, sign.textContent] = ["false", words, ""];
  const [content, link] = ["[data-body] .content", "a[data-full-text]"].map((one) => page?.querySelector(one));
  const [body, isHere] = [post.querySelector("[data-body]"), form.contains(document.activeElement)];
  if (button.isConnected && content && link) {
    if (body.querySelector("[data-player]")) { // which may play
      const own = body.querySelector(".content");
      own ? own.replaceWith(content) : body.prepend(content);
      localiseTimes(content);
      form.replaceWith(link.parentElement);
    } else {
      showWhole(page, body);
    }
    isHere && link.focus({ preventScroll: true });
  }
  return button.isConnected || link?.isConnected;
}

/** Show the full text of a post in place, or the text of its feed again; `control` is the link or button for it. */
export async function changeText(control) {
  const post = control.closest(".post");
  if ([post, control].some((one) => one.ariaBusy === "true")) {
    return;
  }
  const words = control.textContent;
  [post.ariaBusy, control.textContent] = ["true", control.dataset.waits];
  const { form, href } = control;
  const page = await (form ? fetched(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) }) : fetched(href));
  [post.ariaBusy, control.textContent] = ["false", words];
  if (!control.isConnected) {
    return; // the post was closed meanwhile
  }
  const problem = page?.querySelector("main [role=alert]");
  const isHere = post.contains(document.activeElement);
  if (problem) {
    say(problem.textContent);
  } else if (showWhole(page, post.querySelector("[data-body]"))) {
    isHere && post.focus({ preventScroll: true });
  } else if (!isLeaving() && canLeave()) {
    location.assign(post.querySelector("[data-open]").href); // that page says why
  }
}
