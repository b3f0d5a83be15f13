// Chooses feeds in the table: all shown ones with one box, a range with Shift; the actions show while any is chosen.
// Filters the table while the user types; the server filters, because the page may have only a part of all feeds.
// Says how many feeds still wait while all are refreshed.
"use strict";

const PAUSE = 150; // milliseconds without a key
let again = 5000; // milliseconds until it looks again; a host with many feeds can take an hour
const RARELY = 60000;
const asked = location.href; // a filter changes it
const bar = document.querySelector(".choosing");
const table = document.getElementById("feeds");
const link = document.querySelector("[data-all]");
const filter = document.getElementById("filter");
const boxes = () => [...table.querySelectorAll("tbody [name=feed]")];
const all = document.createElement("input");
let [last, waiting] = [null, 0];

/** The box in the table's head that stands for all, in place of the link that loads the page with all chosen. */
function prepareBoxForAll() {
  all.type = "checkbox";
  all.ariaLabel = link.textContent;
  document.querySelector("th.tick").replaceChildren(all);
  link.hidden = true; // for browsers that know no media query for scripts
  all.addEventListener("change", () => {
    for (const box of boxes()) {
      box.checked = all.checked;
    }
    show();
  });
}

function show() {
  const [shown, others] = [boxes(), bar.querySelectorAll("[name=feed]").length];
  const count = shown.filter((box) => box.checked).length;
  all.checked = count > 0 && count === shown.length;
  all.indeterminate = count > 0 && !all.checked;
  bar.hidden = count + others === 0;
  bar.dataset.begun = "";
  const said = bar.querySelector("[data-chosen]");
  const [words, hidden] = [bar.dataset.words, others ? ` ${bar.dataset.hidden}` : ""];
  [said.hidden, said.textContent] = [false, words.replace("#", count + others) + hidden.replace("#", others)];
}

function showChannel() {
  const needed = ["move", "copy"].includes(document.getElementById("do").value);
  const [field, label] = [document.getElementById("to"), bar.querySelector("[for=to]")];
  [field.hidden, label.hidden, field.disabled] = [!needed, !needed, !needed];
  field.required = needed;
}

/** Chosen feeds stay chosen: those that the table no longer shows as hidden fields. */
function keepChosen(rows) {
  const chosen = new Set([...boxes().filter((box) => box.checked), ...bar.querySelectorAll("[name=feed]")].map((one) => one.value));
  table.tBodies[0].replaceChildren(...rows);
  for (const box of boxes()) {
    box.checked = chosen.delete(box.value);
  }
  bar.querySelectorAll("[name=feed]").forEach((one) => one.remove());
  for (const value of chosen) {
    bar.append(Object.assign(document.createElement("input"), { type: "hidden", name: "feed", value }));
  }
  table.closest(".table").hidden = !table.tBodies[0].rows.length;
  last = null;
  show();
}

/** Show the feeds with these words; false if the field has others by now. */
async function find(words) {
  const address = `${filter.action}?${new URLSearchParams(new FormData(filter))}`;
  const page = new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
  const found = page.getElementById("feeds");
  if (!found || filter.elements.q.value.trim() !== words) {
    return false;
  }
  keepChosen(found.tBodies[0].rows);
  for (const id of ["found", "turns"]) {
    document.getElementById(id).replaceChildren(...page.getElementById(id).childNodes);
  }
  const heads = [...found.tHead.querySelectorAll("a")];
  table.tHead.querySelectorAll("a").forEach((one, at) => (one.href = heads[at].href));
  const form = bar.closest("form");
  form.elements.q.value = words;
  form.elements.from?.remove();
  history.replaceState(history.state, "", address);
  return true;
}

/** Say how many still wait; in the end the table shows the feeds as they are now, unless somebody is in it. */
async function look() {
  const page = new DOMParser().parseFromString(await (await fetch(asked)).text(), "text/html");
  const now = page.getElementById("refreshing");
  if (!now) {
    return;
  }
  document.getElementById("refreshing").replaceWith(now);
  if (now.matches("[data-waiting]")) {
    watch();
  } else if (location.href === asked && !table.contains(document.activeElement)) {
    keepChosen(page.getElementById("feeds").tBodies[0].rows);
  }
}

function watch() {
  setTimeout(() => (document.hidden ? watch() : look().catch(watch)), again);
  again = Math.min(again * 1.3, RARELY);
}

if (document.querySelector("#refreshing[data-waiting]")) {
  watch();
}

if (bar) {
  prepareBoxForAll();
  show();
  showChannel();
  document.getElementById("do").addEventListener("change", showChannel);
  table.tBodies[0].addEventListener("click", (event) => {
    const shown = boxes();
    const at = shown.indexOf(event.target);
    if (at < 0) {
      return;
    }
    if (event.shiftKey && last !== null) {
      for (const box of shown.slice(Math.min(at, last), Math.max(at, last) + 1)) {
        box.checked = event.target.checked;
      }
    }
    last = at;
    show();
  });
  filter.querySelector("button").hidden = true;
  filter.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    if (await find(filter.elements.q.value.trim()).catch(() => false)) {
      table.querySelector("tbody th a")?.focus(); // Enter again opens its posts
    }
  });
  filter.addEventListener("input", () => {
    clearTimeout(waiting);
    const words = filter.elements.q.value.trim();
    waiting = setTimeout(() => find(words).catch(() => {}), PAUSE);
  });
  addEventListener("pageshow", show); // the browser may have restored the boxes
}
