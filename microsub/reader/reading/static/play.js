// Players: this browser remembers the last positions in a limited number of files, separately for each user.
import { clock, goTo, placeIn, resume } from "./listening.js";

const MOST = 200;
const EVERY = 5000; // milliseconds between two records of the position
const AT_LEAST = 10; // seconds at the beginning and end in which no position is recorded
const place = `positions of ${document.getElementById("channels")?.dataset.user}`;

function positions() {
  return new Map(JSON.parse(localStorage.getItem(place) || "[]"));
}

/** Record the player's position; the file that was played longest ago is dropped if there are too many. */
function note(player) {
  if (!player.readyState) {
    return; // nothing is loaded yet, so the recorded position stays
  }
  const kept = positions();
  const at = placeIn(player);
  kept.delete(player.src);
  if (at > AT_LEAST && !(player.duration - at < AT_LEAST)) {
    kept.set(player.src, Math.floor(at));
  }
  localStorage.setItem(place, JSON.stringify([...kept].slice(-MOST)));
}

function prepare(player) {
  const from = positions().get(player.src);
  const word = player.parentElement.querySelector("[data-goes-on]");
  if (from) {
    player.dataset.from = from;
    word.textContent = word.dataset.goesOn.replace("{time}", clock(from));
    word.hidden = false;
    player.addEventListener("loadedmetadata", () => {
      if (!resume(player, from)) {
        word.textContent = word.dataset.keptSaid.replace("{time}", clock(from));
        word.hidden = false;
      }
    }, { once: true });
  }
  let at = performance.now();
  player.addEventListener("timeupdate", () => {
    if (!player.paused && performance.now() - at > EVERY) {
      at = performance.now();
      note(player);
    }
  });
  player.addEventListener("play", () => (word.hidden = true), { once: true });
  player.addEventListener("pause", () => note(player));
  addEventListener("pagehide", () => player.paused || note(player));
}

/** Chapters lead to their place in the first player of their post. */
function follow(chapter) {
  const post = chapter.closest("[data-body]");
  const own = post?.querySelector("[data-player]");
  if (!own) {
    return;
  }
  chapter.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) {
      return; // its file in a tab or window of its own
    }
    const { id } = post.closest("[data-id]").dataset;
    const player = document.querySelector(`#listening[data-post="${id}"] audio`) || own;
    event.preventDefault();
    const go = () => goTo(player, Number(chapter.dataset.start));
    if (player.readyState) {
      go();
    } else {
      player.addEventListener("loadedmetadata", go, { once: true });
    }
    player.play().catch(() => {}); // the player says itself what it can't play
  });
}

/** Show the chapters that the server reads from the document that the episode names, in place of the link to them. */
export async function showChapters(link) {
  const reply = await fetch(link.href);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const listed = page.querySelector("[data-listed] .chapters");
  if (reply.ok && listed) {
    const heading = document.createElement("h2");
    heading.textContent = link.textContent;
    link.parentElement.replaceWith(heading, listed);
    listed.querySelectorAll("[data-start]").forEach(follow);
  }
}

export function preparePlayers() {
  document.querySelectorAll("[data-player]").forEach(prepare);
  document.querySelectorAll("[data-chapters]").forEach((link) => showChapters(link).catch(() => {})); // its page says why
  document.querySelectorAll("[data-start]").forEach(follow);
}
