// Accepts a list of feeds by drag and drop, and shows the progress of its import.
"use strict";

const AGAIN = 1000;

for (const form of document.querySelectorAll("[data-drop]")) {
  const field = form.elements.list;
  form.querySelector("[data-dropped]").hidden = false;
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

async function look() {
  const reply = await fetch(location.pathname);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const found = page.getElementById("import");
  if (!reply.ok || !found) {
    return;
  }
  document.getElementById("import").replaceWith(found);
  watch();
}

function watch() {
  if (document.querySelector("#import[data-running]")) {
    setTimeout(look, AGAIN);
  }
}

watch();
