// Shows the buttons that copy the text next to them.
"use strict";

const once = document.querySelector("[autofocus] + [data-copy]");
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) {
    break;
  }
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    const before = button.textContent;
    button.textContent = button.dataset.done;
    button.disabled = true;
    setTimeout(() => {
      button.textContent = before;
      button.disabled = false;
    }, 2000);
  });
}
once?.focus();
