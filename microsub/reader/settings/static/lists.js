// Accepts a list of feeds by drag and drop, and shows the progress of its import, then what became of each feed.
"use strict";

const AGAIN = 1000;
const LATER = 5000;
const PARTS = ["import", "brought"];

for (const form of document.querySelectorAll("[data-drop]")) {
  const field = form.elements.list;
  form.addEventListener("dragover", (event) => {
    event.preventDefault();
    form.classList.add("over");
  });
  for (const name of ["dragleave", "drop"]) {
    form.addEventListener(name, () => form.classList.remove("over"));
  }
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) {
      field.files = event.dataTransfer.files;
      form.requestSubmit();
    }
  });
}

/** Channels that the import has made come into the list beside the page, each at its place; counts and signs follow. */
function bringChannels(page) {
  const list = document.querySelector("#channels > ul");
  [...page.querySelectorAll("#channels > ul > li")].forEach((row, at) => {
    const uid = row.querySelector("[data-channel]")?.dataset.channel;
    const known = uid && list.querySelector(`:scope > li > [data-channel="${CSS.escape(uid)}"]`);
    const [was, is] = [known, row].map((one) => one?.querySelector("[data-count]"));
    const [sign, now] = [known?.parentElement, row].map((one) => one?.querySelector(":scope > .attention"));
    if (uid && !known) {
      list.insertBefore(row, list.children[at] ?? null);
    } else if (known && sign?.textContent !== now?.textContent) {
      sign?.remove();
      known.after(now ?? "");
    }
    if (was && is && was.textContent !== is.textContent) {
      [was.textContent, was.dataset.count] = [is.textContent, is.dataset.count];
      was.closest(".count, .number").hidden = is.closest(".count, .number").hidden;
    }
  });
}

async function look() {
  const reply = await fetch(location.href);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  if (!reply.ok || !page.getElementById("import")) {
    return;
  }
  for (const id of PARTS) {
    const part = document.getElementById(id);
    if (!part.contains(document.activeElement)) { // whoever stands in it goes on reading
      part.replaceWith(page.getElementById(id));
    }
  }
  bringChannels(page);
  watch();
}

function watch() {
  if (document.querySelector("#import[data-running]")) {
    setTimeout(look, AGAIN);
  } else if (document.querySelector("#brought[data-waiting]")) {
    setTimeout(() => (document.hidden ? watch() : look()), LATER);
  }
}

watch();
