// Narrows the list of channels while the user types; the server searches, because the page has only a part of the list.
const PAUSE = 150; // milliseconds without a key
const form = document.getElementById("find");
const list = document.querySelector("#channels ul");
const status = document.querySelector("#channels [aria-live]");
const [before, said] = [[...list.children], status.textContent];
let waiting = 0;

async function find(words) {
  const reply = await fetch(`${form.action}?${new URLSearchParams({ q: words })}`);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const found = page.querySelector(".found");
  if (found && form.elements.q.value.trim() === words) {
    list.replaceChildren(...found.children);
    status.textContent = page.getElementById("found").textContent;
  }
}

form.addEventListener("input", () => {
  clearTimeout(waiting);
  const words = form.elements.q.value.trim();
  if (words) {
    waiting = setTimeout(() => find(words).catch(() => {}), PAUSE);
  } else {
    list.replaceChildren(...before);
    status.textContent = said;
  }
});
