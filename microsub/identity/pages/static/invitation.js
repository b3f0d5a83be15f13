// Moves the code of a one-time link from the address's fragment, which browsers don't send, into the forms.
"use strict";

// Shows at once that a link has been used, in place of the forms.
async function look(code) {
  const choices = document.querySelector("[data-choices]");
  if (!choices) {
    return;
  }
  const fields = new URLSearchParams({ code, [choices.dataset.tokenField]: choices.dataset.token });
  const reply = await fetch(choices.dataset.look, { method: "POST", body: fields });
  if (reply.status === 400) {
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const alert = document.querySelector("[data-spent]");
    alert.textContent = page.querySelector("[role=alert]").textContent;
    alert.hidden = false;
    choices.hidden = true;
  }
}

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
    part.previousElementSibling.hidden = true;
  }
  look(code);
}

takeCode();
addEventListener("hashchange", takeCode);
