// Takes the code of a one-time link out of the address, which never sent it to anybody, and into the forms.
"use strict";

function takeCode() {
  const code = decodeURIComponent(location.hash.slice(1));
  if (!code) {
    return;
  }
  history.replaceState(null, "", location.pathname);
  for (const field of document.querySelectorAll("[data-code]")) {
    field.value = code;
  }
  for (const part of document.querySelectorAll("[data-code-field]")) {
    part.hidden = true;
  }
  const name = code.split(".")[0];
  for (const field of document.querySelectorAll("[data-invited-name]")) {
    field.value = name;
  }
  for (const part of document.querySelectorAll("[data-invited]")) {
    part.querySelector("strong").textContent = name;
    part.hidden = false;
  }
}

takeCode();
addEventListener("hashchange", takeCode);
