// The bar with the player: it goes on at its position on the next page, and the account keeps the position.
import { change as mark, say, tell } from "./marks.js";

const EVERY = 15000; // milliseconds between two reports of the position
const CLOSE = 2; // seconds
const OVER = 10; // seconds before the end in which an episode counts as heard

let reported = 0; // when the position was reported last
let at = -1; // the position that the account has
let from = 0; // where the episode goes on
let moment = null; // where the one that is asked for begins, if a time in its text or a chapter names that
let isWaiting = false; // for a press, to go on

const bar = () => document.getElementById("listening");
const sound = () => bar()?.querySelector("audio");

/** A place in a recording, for people. */
export function clock(seconds) {
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds % 60)];
  return parts.slice(parts[0] ? 0 : 1).map((part) => String(part).padStart(2, "0")).join(":");
}

/** Whether a loaded file can be played from there: some hosts send files only from their beginning. */
const canReach = ({ seekable }, seconds) => seekable.length > 0 && seconds <= seekable.end(seekable.length - 1);

/** Go to a place of a loaded file; false if that can't be reached, and the player stays where it is. */
export function goTo(audio, seconds) {
  const is = canReach(audio, seconds);
  if (is) {
    audio.currentTime = seconds;
  }
  return is;
}

/** Go on at a place of a loaded file. If it can't be reached, the player keeps it until playback is beyond it. */
export function resume(audio, seconds) {
  const is = goTo(audio, seconds) || seconds < CLOSE;
  if (!is) {
    audio.dataset.kept = seconds;
  }
  return is;
}

/** Where listening is to go on. */
export const placeIn = ({ currentTime, dataset }) => Math.max(currentTime, Number(dataset.kept ?? 0));

/** Say that the file in the bar plays only from its beginning, and which place is kept. */
function sayUnreachable() {
  const [word, { kept }] = [bar().querySelector("[data-kept-said]"), sound().dataset];
  word.textContent = kept ? word.dataset.keptSaid.replace("{time}", clock(kept)) : word.dataset.beginningSaid;
}

/** Remember for the next page whether this one plays, or waits for a press to go on, and where. */
function remember() {
  const { dataset, paused, readyState } = sound();
  const [on, last] = [!paused || isWaiting, readyState ? placeIn(sound()) : from];
  sessionStorage.setItem("listening", JSON.stringify({ file: dataset.file, on, at: last }));
}

const remembered = () => JSON.parse(sessionStorage.getItem("listening") || "{}");

/** Play. Where a browser wants a press first, as on its way back, the bar shows the position, and any press plays. */
function goOn(audio) {
  audio.play().catch(({ name }) => {
    if (name === "NotAllowedError" && audio === sound()) {
      isWaiting = true;
      audio.preload = "metadata";
    }
  });
}

function report() {
  const [audio, form] = [sound(), bar().querySelector("form")];
  const seconds = Math.floor(placeIn(audio));
  if (!audio.readyState || Math.abs(seconds - at) < CLOSE) {
    return;
  }
  [reported, at] = [performance.now(), seconds];
  post(form, { seconds });
}

/** Have the account keep the position or the speed. */
function post(form, fields) {
  const body = new URLSearchParams(new FormData(form));
  Object.entries(fields).forEach(([name, value]) => body.set(name, value));
  const headers = { accept: "application/json" };
  fetch(form.action, { method: "POST", body, headers, keepalive: true }).catch(() => {}); // the next report has it
}

/** The post's own player of the file in the bar, which is hidden: one is enough. */
function twin() {
  const file = sound()?.dataset.file;
  const players = [...document.querySelectorAll("[data-player]")];
  players.forEach((one) => (one.hidden = one.src === file));
  return players.find((one) => one.hidden);
}

/** What stands above the bar knows its height, which its message and its unfolded controls change. */
const height = new ResizeObserver(() => document.documentElement.style.setProperty("--player", `${bar()?.offsetHeight}px`));

/** The button of the episode that plays shows that, in lists, too. */
function showPlaying() {
  const file = sound()?.paused === false ? sound().dataset.file : null;
  for (const sign of document.querySelectorAll("[data-act=play] use")) {
    const button = sign.closest("button");
    button.ariaCurrent = button.value === file ? "true" : null;
    sign.setAttribute("href", button.value === file ? "#i-playing" : "#i-play");
  }
}

function prepare(starts) {
  const [audio, own] = [sound(), twin()];
  height.disconnect();
  if (!audio) {
    return;
  }
  height.observe(bar());
  ["play", "playing", "pause"].forEach((name) => audio.addEventListener(name, showPlaying));
  const last = remembered();
  const plays = last.on && last.file === audio.dataset.file;
  isWaiting = false;
  from = (plays ? last.at : null) ?? Number(audio.dataset.at); // paused, it may have gone on elsewhere
  if (starts && own) { // it goes on where that one is, or was at an earlier visit
    from = own.readyState ? placeIn(own) : from || Number(own.dataset.from ?? 0);
  }
  [from, moment] = [moment ?? from, null];
  at = Number(audio.dataset.at); // browsers may drop a report at the end of a page
  audio.addEventListener("loadedmetadata", () => resume(audio, from) || sayUnreachable(), { once: true });
  showSpeed();
  audio.addEventListener("play", () => {
    isWaiting = false;
    bar()?.querySelector("p small")?.remove();
  });
  audio.addEventListener("error", () => {
    const word = bar()?.querySelector("[data-failed-said]");
    if (word && audio === sound()) {
      word.textContent = word.dataset.failedSaid;
    }
  });
  audio.addEventListener("timeupdate", () => {
    if (!audio.paused && performance.now() - reported > EVERY) {
      report();
    }
  });
  audio.addEventListener("pause", () => audio.ended || audio !== sound() || report()); // a removed one pauses, too
  audio.addEventListener("ended", () => change(bar().querySelector("form"), bar().querySelector("[data-next]"), true, bar().dataset.post));
  if (starts || plays) {
    goOn(audio);
  }
}

/** Send a form without leaving the page: the reply has the bar as it is now. The episode of the post `heard` has ended. */
async function change(form, button, plays, heard = "") {
  const body = new URLSearchParams(new FormData(form));
  body.set(button.name, button.value);
  if (heard && document.getElementById("change")) {
    mark("read", heard); // also without a network
  } else if (heard) {
    body.set("ended", "yes");
  }
  if (bar()?.contains(form) && sound().readyState) {
    const [last, isOver] = [placeIn(sound()), sound().duration - placeIn(sound()) < OVER];
    body.set("seconds", isOver ? 0 : Math.floor(last)); // the account keeps where another begins, or the player is closed
  }
  const reply = await fetch(form.action, { method: "POST", body });
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  if (!reply.ok) {
    moment = null;
    say(page.querySelector("[role=alert]")?.textContent || reply.statusText);
    return;
  }
  say(button.name === "add" ? page.querySelector("#done [data-text]").textContent : "");
  const [before, after] = [bar(), page.getElementById("listening")];
  if (before && after && before.querySelector("audio").dataset.file === after.querySelector("audio").dataset.file) {
    const [isOpen, isInside] = [before.querySelector("details[open]"), before.contains(document.activeElement)];
    before.querySelector("form").replaceWith(after.querySelector("form")); // the sound goes on
    showSpeed();
    if (plays) {
      goOn(sound());
    }
    before.querySelector("details")?.toggleAttribute("open", Boolean(isOpen));
    if (isInside) {
      before.querySelector("summary, [data-next]:not([hidden]), [name=close]").focus();
    }
    return;
  }
  before?.remove();
  sessionStorage.removeItem("listening"); // of an earlier page
  twin();
  if (after) {
    document.body.append(after);
    prepare(plays);
    if (!button.isConnected) {
      sound().focus();
    }
  }
}

/** Pause what plays, or play: the post's episode, or else what the bar has. */
export function playOrPause(post) {
  prepareListening(); // of two that wait for this script, a browser can serve the later one first
  const button = post?.querySelector("form[action$='/listen'] [name=play]");
  if (sound() && !sound().paused) {
    sound().pause();
  } else if (button && button.value !== sound()?.dataset.file) {
    button.click();
  } else if (sound()) {
    sound().play();
  } else {
    tell("soundless");
  }
}

/** Play the episode of a post in a list from a moment of it. */
function playFrom(post, seconds) {
  const button = post.querySelector("form[action$='/listen'] [name=play]");
  const audio = sound();
  if (button.value !== audio?.dataset.file) {
    moment = seconds;
    button.click();
  } else if (!audio.readyState) {
    from = seconds;
    goOn(audio);
  } else if (goTo(audio, seconds)) {
    goOn(audio);
  } else {
    sayUnreachable();
  }
}

function showSpeed() {
  const [audio, speed] = [sound(), bar().querySelector("[data-speed]")];
  speed.closest("span").hidden = false;
  audio.defaultPlaybackRate = audio.playbackRate = speed.value / 100;
}

const ALONG = { ArrowLeft: -1, ArrowRight: 1, button3: -1, button4: 1 }; // keys, and buttons of a mouse
const isMac = /Mac/.test(navigator.platform);

/**
 * Go back or forward from here, if something plays, when the browser's own key or mouse button for that is pressed. A
 * page to which another one leads may play; one to which the browser leads waits for a press.
 */
function goAlong(event) {
  const { target, key, button, ctrlKey, shiftKey } = event;
  const step = ALONG[key ?? `button${button}`];
  const isKey = (isMac ? event.metaKey : event.altKey) && !ctrlKey && !shiftKey && !target.closest("input, textarea, select");
  if (step && (isKey || !key) && sound()?.paused === false) {
    event.preventDefault();
    history.go(step);
  }
}

let isReady = false;

export function prepareListening() {
  if (isReady) {
    return;
  }
  isReady = true;
  prepare(false);
  document.addEventListener("submit", (event) => {
    const { target, submitter } = event;
    if (!submitter || !(target.closest("#listening") || target.action.endsWith("/listen"))) {
      return;
    }
    // Another page's policy allows no foreign file; there the next page plays.
    if (!bar() && !document.querySelector(".post.whole, [data-plays]")) {
      sessionStorage.setItem("listening", JSON.stringify({ file: submitter.value, on: submitter.name === "play", at: moment ?? undefined }));
    } else {
      event.preventDefault();
      const plays = submitter.name === "play" || (submitter.matches("[data-next]") && !sound().paused);
      change(target, submitter, plays);
    }
  });
  document.addEventListener("click", (event) => {
    const { target } = event;
    const time = target.closest("[data-start]");
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (target.matches("[data-skip]")) {
      goTo(sound(), Math.max(0, sound().currentTime + Number(target.dataset.skip))) || sayUnreachable();
    } else if (isPlain && !event.defaultPrevented && time?.closest(".post")?.querySelector("form[action$='/listen']")) {
      event.preventDefault();
      playFrom(time.closest(".post"), Number(time.dataset.start));
    }
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-speed]")) {
      showSpeed();
      post(target.form, { speed: target.value });
    }
  });
  document.addEventListener("play", ({ target }) => { // one plays at a time, the bar or a post's own player
    document.querySelectorAll("audio, video").forEach((one) => one !== target && one.pause());
  }, true);
  for (const press of ["keydown", "mouseup"]) {
    addEventListener(press, goAlong);
  }
  for (const press of ["click", "keyup"]) {
    addEventListener(press, ({ target }) => isWaiting && sound() && !target.closest?.("#listening, audio, video") && goOn(sound()));
  }
  addEventListener("pagehide", () => {
    if (sound()) {
      remember();
      report();
    }
  });
  addEventListener("pageshow", ({ persisted }) => { // the browser has kept this page, from before others played on
    const [audio, last] = [sound(), remembered()];
    at = persisted ? -1 : at;
    if (persisted && audio && last.file === audio.dataset.file) {
      if (last.at !== undefined) {
        from = last.at;
        audio.readyState ? goTo(audio, from) : (audio.currentTime = from); // also if the file is loaded only now
      }
      last.on && goOn(audio);
    }
  });
}
