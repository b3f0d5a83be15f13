// Shows the buttons that copy the text next to them.
"use strict";

const once = document.querySelector("[autofocus] + [data-copy]");
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) {
    break;
  }
  const label = button.textContent;
  let said = 0;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.textContent = button.dataset.done;
    clearTimeout(said);
    said = setTimeout(() => (button.textContent = label), 2000);
  });
}
once?.focus();
