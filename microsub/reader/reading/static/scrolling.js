// Marks posts that are scrolled past, if the user has chosen so. Those of one run are taken back together.
import { isNextUndone, isOffered, isOn, MOST_LISTED, note, say, send, showChanged, showState } from "./marks.js";

const IN_VIEW = 700; // milliseconds for which a post has to be in view before scrolling past marks it
const MOST_OF_SCROLLING = 1.5; // screens a second: faster scrolling isn't reading
const RUN = 15000; // milliseconds without a mark after which a run has ended
const BACK = 1 / 3; // of a screen, up which a user scrolls who misses a post

const since = new Map(); // post → when the user scrolled it into view
let scrolledByReader = 0;
let jumpUntil = performance.now() + 1500; // a restored position and loading pictures don't count as scrolling

/** What scrolls next isn't the user. */
export function jumping() {
  jumpUntil = performance.now() + 400;
  since.clear();
}

const watched = new IntersectionObserver(
  (seen) => {
    for (const one of seen) {
      if (one.isIntersecting) {
        since.set(one.target, performance.now());
      }
    }
  },
  { threshold: 0 },
);

/** Mark this post, too, when it is scrolled past. */
export const watch = (post) => watched.observe(post);

let run = null; // what takes back the marks of the last run
let ends = 0;

async function mark(ids) {
  const goesOn = Date.now() < ends && isNextUndone(run) && run.ids.length + ids.length <= MOST_LISTED;
  const noted = note("unread", goesOn ? [...run.ids, ...ids] : ids, goesOn ? run : null);
  run = noted;
  ends = Date.now() + RUN;
  ids.forEach((id) => showState(id, "read", true));
  const told = await send(document.getElementById("change"), { read: ids.join(",") });
  if (told) {
    showChanged(told, ids, -1);
    if (told.text) {
      say(told.text, "", told.turn);
    }
  } else {
    ids.forEach((id) => showState(id, "read", false));
    noted.ids = noted.ids.filter((id) => !ids.includes(id));
  }
}

/** Offer the undo of the last run to a user who turns back. */
function offer() {
  if (run && isNextUndone(run) && !isOffered()) {
    say(document.getElementById("channels").dataset.passed, `unread ${run.ids}`);
    run = null;
  }
}

function pass(speed) {
  const now = performance.now();
  if (now < jumpUntil || now - scrolledByReader > 1000) {
    return;
  }
  const passed = [];
  for (const [post, came] of since) {
    const isPast = post.getBoundingClientRect().bottom < 0;
    if (isPast && speed < MOST_OF_SCROLLING && now - came > IN_VIEW && !isOn(post.dataset.id, "read")) {
      passed.push(post.dataset.id);
    }
    if (isPast) {
      since.delete(post);
    }
  }
  if (passed.length) {
    mark(passed);
  }
}

export function prepareScrolling() {
  let [lastPlace, lastTime, lowest] = [scrollY, performance.now(), scrollY];
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(kind, () => (scrolledByReader = performance.now()), { passive: true });
  }
  addEventListener("scroll", () => {
    const now = performance.now();
    const speed = Math.abs(scrollY - lastPlace) / innerHeight / Math.max((now - lastTime) / 1000, 0.05);
    [lastPlace, lastTime] = [scrollY, now];
    pass(speed);
    lowest = now < jumpUntil ? scrollY : Math.max(lowest, scrollY);
    if (lowest - scrollY > innerHeight * BACK) {
      lowest = scrollY;
      offer();
    }
  });
  document.querySelectorAll(".post").forEach(watch);
}
