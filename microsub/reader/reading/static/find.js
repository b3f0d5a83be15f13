// Narrows lists of channels while the user types; the server searches, because a page has only a part of the list.
const PAUSE = 150; // milliseconds without a key

function narrow(form, list, status) {
  const said = status.textContent;
  const further = form.parentElement.querySelector(":scope > .found + nav"); // pages of the whole list
  let waiting = 0;
  let shown = []; // the lines that were found

  /** Show these lines instead of the whole list, whose own are hidden: their numbers and signs go on changing. */
  function show(lines, text) {
    shown.forEach((line) => line.remove());
    shown = lines ?? [];
    [...list.children, further].forEach((one) => one?.toggleAttribute("hidden", lines !== null));
    list.append(...shown);
    status.textContent = text;
  }

  async function find(words) {
    const reply = await fetch(`${form.action}?${new URLSearchParams({ q: words })}`);
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const found = page.querySelector(".found");
    if (found && form.elements.q.value.trim() === words) {
      show([...found.children], page.getElementById("found").textContent);
    }
  }

  form.addEventListener("input", () => {
    clearTimeout(waiting);
    const words = form.elements.q.value.trim();
    if (words || form.elements.q.defaultValue) { // a page that came with words has only what they find
      waiting = setTimeout(() => find(words).catch(() => {}), PAUSE);
    } else {
      show(null, said);
    }
  });
}

for (const [form, list, status] of [
  ["find", "#channels ul", "#channels [aria-live]"], // beside the page
  ["find-here", "main .found", "#found"],
]) {
  if (document.getElementById(form)) {
    narrow(document.getElementById(form), document.querySelector(list), document.querySelector(status));
  }
}
