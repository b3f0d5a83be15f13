// The bar with the player: it goes on at its position on the next page, and the account keeps the position.
import { say, tell } from "./marks.js";

const EVERY = 15000; // milliseconds between two reports of the position
const CLOSE = 2; // seconds

let reported = 0; // when the position was reported last
let at = -1; // the position that the account has
let from = 0; // where the episode goes on
let isWaiting = false; // for a press, to go on

const bar = () => document.getElementById("listening");
const sound = () => bar()?.querySelector("audio");

/** Remember for the next page whether this one plays, or waits for a press to go on, and where. */
function remember() {
  const { dataset, paused, currentTime, readyState } = sound();
  const [on, last] = [!paused || isWaiting, readyState ? currentTime : from];
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
  const seconds = Math.floor(audio.currentTime);
  if (!audio.readyState || Math.abs(seconds - at) < CLOSE) {
    return;
  }
  [reported, at] = [performance.now(), seconds];
  const body = new URLSearchParams(new FormData(form));
  body.set("seconds", seconds);
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

function prepare(starts) {
  const [audio, own] = [sound(), twin()];
  if (!audio) {
    return;
  }
  const last = remembered();
  const plays = last.on && last.file === audio.dataset.file;
  isWaiting = false;
  from = (plays ? last.at : null) ?? Number(audio.dataset.at); // paused, it may have gone on elsewhere
  if (starts && own) { // it goes on where that one is, or was at an earlier visit
    from = own.readyState ? own.currentTime : from || Number(own.dataset.from ?? 0);
  }
  at = Number(audio.dataset.at); // browsers may drop a report at the end of a page
  audio.addEventListener("loadedmetadata", () => (audio.currentTime = from), { once: true });
  showSpeed();
  audio.addEventListener("play", () => {
    isWaiting = false;
    bar()?.querySelector("small")?.remove();
  });
  audio.addEventListener("timeupdate", () => {
    if (!audio.paused && performance.now() - reported > EVERY) {
      report();
    }
  });
  audio.addEventListener("pause", () => audio.ended || audio !== sound() || report()); // a removed one pauses, too
  audio.addEventListener("ended", () => change(bar().querySelector("form"), bar().querySelector("[data-next]"), true));
  if (starts || plays) {
    goOn(audio);
  }
}

/** Send a form without leaving the page: the reply has the bar as it is now. */
async function change(form, button, plays) {
  const body = new URLSearchParams(new FormData(form));
  body.set(button.name, button.value);
  const reply = await fetch(form.action, { method: "POST", body });
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  if (!reply.ok) {
    say(page.querySelector("[role=alert]")?.textContent || reply.statusText);
    return;
  }
  say(button.name === "add" ? page.querySelector("#done [data-text]").textContent : "");
  const [before, after] = [bar(), page.getElementById("listening")];
  if (before && after && before.querySelector("audio").dataset.file === after.querySelector("audio").dataset.file) {
    const [isOpen, isInside] = [before.querySelector("details[open]"), before.contains(document.activeElement)];
    before.querySelector("form").replaceWith(after.querySelector("form")); // the sound goes on
    showSpeed();
    before.querySelector("details")?.toggleAttribute("open", Boolean(isOpen));
    if (isInside) {
      before.querySelector("summary, [data-next]").focus();
    }
    return;
  }
  before?.remove();
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

function showSpeed() {
  const [audio, speed] = [sound(), bar().querySelector("[data-speed]")];
  speed.value = localStorage.getItem("speed") || "1";
  speed.closest("span").hidden = false;
  audio.defaultPlaybackRate = audio.playbackRate = Number(speed.value);
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
      sessionStorage.setItem("listening", JSON.stringify({ file: submitter.value, on: submitter.name === "play" }));
    } else {
      event.preventDefault();
      const plays = submitter.name === "play" || (submitter.matches("[data-next]") && !sound().paused);
      change(target, submitter, plays);
    }
  });
  document.addEventListener("click", ({ target }) => {
    if (target.matches("[data-skip]")) {
      sound().currentTime += Number(target.dataset.skip);
    }
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-speed]")) {
      localStorage.setItem("speed", target.value);
      showSpeed();
    }
  });
  document.addEventListener("play", ({ target }) => { // one plays at a time, the bar or a post's own player
    document.querySelectorAll("audio, video").forEach((one) => one !== target && one.pause());
  }, true);
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
        audio.currentTime = from = last.at; // also if the file is loaded only now
      }
      last.on && goOn(audio);
    }
  });
}
