// Requests news when the server announces a change, and at intervals. New posts are announced in a bar, so that nothing
// on the page moves.
import { feed, showCounts } from "./marks.js";

const PAUSE = 60000;
const bar = document.getElementById("news");

async function ask() {
  if (document.hidden) {
    return;
  }
  const { channel, show, source, top, news } = feed.dataset;
  const asked = new URLSearchParams({ channel, show, source, before: top });
  try {
    const reply = await fetch(`${news}?${asked}`);
    if (!reply.ok) {
      return;
    }
    const told = await reply.json();
    showCounts(told.unread);
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
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => source?.close());
  listen();
}

const STORED = "branches";
const LATER = 2000; // milliseconds until the counts of a branch follow that of its channel
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

async function fetchedBranch(link) {
  const reply = await fetch(`${link.href}?part=1`);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  return reply.ok && page.querySelector(".branch");
}

async function showBranch(link) {
  const branch = await fetchedBranch(link);
  if (branch && link.ariaExpanded === "true") {
    link.parentElement.querySelector(".branch")?.remove();
    link.parentElement.append(branch);
  }
}

function followCount(link) {
  const count = link.parentElement.querySelector("[data-count]");
  let waiting = 0;
  new MutationObserver(() => {
    clearTimeout(waiting);
    waiting = setTimeout(() => link.ariaExpanded === "true" && showBranch(link).catch(() => {}), LATER);
  }).observe(count, { characterData: true, childList: true, subtree: true });
}

function fold(link, isOpen) {
  link.ariaExpanded = String(isOpen);
  opened[isOpen ? "add" : "delete"](new URL(link.href).pathname);
  remember();
  if (isOpen) {
    showBranch(link).catch(() => (location.href = link.href));
  } else {
    link.parentElement.querySelector(".branch")?.remove();
  }
}

// Unfolds a channel to its feeds in the list of channels. Which ones are unfolded is remembered in this browser.
export function prepareBranches() {
  recall();
  document.getElementById("channels")?.addEventListener("click", (event) => {
    const link = event.target.closest("[data-branch]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      fold(link, link.ariaExpanded !== "true");
    }
  });
  document.getElementById("channels")?.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target.matches("[data-branch]")) {
      event.preventDefault();
      fold(event.target, event.target.ariaExpanded !== "true");
    }
  });
  for (const link of document.querySelectorAll("#channels [data-branch]")) {
    [link.role, link.ariaExpanded] = ["button", "false"];
    followCount(link);
    if (opened.has(new URL(link.href).pathname)) {
      fold(link, true);
    }
  }
}
