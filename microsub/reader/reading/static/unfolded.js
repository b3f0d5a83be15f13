// Shows unfolded channels with their feeds as this tab showed them last, at the same place of the list. It runs before
// the page is painted, so that nothing moves when the feeds come; news.js keeps them, and shows how they are now.
try {
  const channels = document.getElementById("channels");
  for (const path of JSON.parse(localStorage.getItem("branches") || "[]")) {
    const link = channels.querySelector(`[data-branch][href="${path}"]`);
    const kept = sessionStorage.getItem(`branch ${channels.dataset.user} ${path}`);
    const branch = new DOMParser().parseFromString(kept ?? "", "text/html").querySelector(".branch");
    if (link && branch) {
      link.parentElement.append(branch);
    }
  }
  channels.scrollTop = Number(sessionStorage.getItem("beside"));
} catch {
  // The browser keeps nothing; the feeds come a moment later.
}

// Keys that are pressed before reader.js runs wait for it; those that the browser or a field takes don't.
self.early = Object.assign((event) => {
  const isTyping = event.target.closest?.("input:not([type=radio], [type=checkbox]), textarea, select");
  if (event.key.length === 1 && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    early.keys.push(event);
    if (event.key !== " ") { // which scrolls
      event.preventDefault();
    }
  }
}, { keys: [] });
addEventListener("keydown", early);

// A list is painted with its whole heading; one whose heading doesn't come, as far as it has.
setTimeout(() => document.querySelector("link[rel=expect]")?.remove(), 500);
