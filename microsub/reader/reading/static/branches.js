// Unfolds a channel to its feeds in the list of channels. Which ones are unfolded is remembered in this browser.
const STORED = "branches";
const PAUSE = 2000; // milliseconds until the counts of a branch follow that of its channel
const opened = new Set(JSON.parse(localStorage.getItem(STORED) || "[]"));

async function fetched(link) {
  const reply = await fetch(`${link.href}?part=1`);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  return reply.ok && page.querySelector(".branch");
}

async function show(link) {
  const branch = await fetched(link);
  if (branch && link.ariaExpanded === "true") {
    link.parentElement.querySelector(".branch")?.remove();
    link.parentElement.append(branch);
  }
}

function follow(link) {
  const count = link.parentElement.querySelector("[data-count]");
  let waiting = 0;
  new MutationObserver(() => {
    clearTimeout(waiting);
    waiting = setTimeout(() => link.ariaExpanded === "true" && show(link).catch(() => {}), PAUSE);
  }).observe(count, { characterData: true, childList: true, subtree: true });
}

function toggle(link, isOpen) {
  link.ariaExpanded = String(isOpen);
  opened[isOpen ? "add" : "delete"](new URL(link.href).pathname);
  localStorage.setItem(STORED, JSON.stringify([...opened]));
  if (isOpen) {
    show(link).catch(() => (location.href = link.href));
  } else {
    link.parentElement.querySelector(".branch")?.remove();
  }
}

document.getElementById("channels")?.addEventListener("click", (event) => {
  const link = event.target.closest("[data-branch]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    toggle(link, link.ariaExpanded !== "true");
  }
});
document.getElementById("channels")?.addEventListener("keydown", (event) => {
  if (event.key === " " && event.target.matches("[data-branch]")) {
    event.preventDefault();
    toggle(event.target, event.target.ariaExpanded !== "true");
  }
});
for (const link of document.querySelectorAll("#channels [data-branch]")) {
  [link.role, link.ariaExpanded] = ["button", "false"];
  follow(link);
  if (opened.has(new URL(link.href).pathname)) {
    toggle(link, true);
  }
}
