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
