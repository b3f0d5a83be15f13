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

// A list is painted with its whole heading; one whose heading doesn't come, as far as it has.
setTimeout(() => document.querySelector("link[rel=expect]")?.remove(), 500);
