// What can't wait for reader.js: it runs before anything of the page is there.

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

// Shows unfolded channels with their feeds as this tab showed them last, at the same place of the list, as soon as the
// list is there: so nothing moves when the feeds come; news.js keeps them, and shows how they are now.
customElements.define("end-of-channels", class extends HTMLElement {
  connectedCallback() {
    try {
      const channels = this.parentElement;
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
  }
});

// A list is painted with its whole heading; one whose heading doesn't come, as far as it has.
setTimeout(() => document.querySelector("link[rel=expect]")?.remove(), 500);
