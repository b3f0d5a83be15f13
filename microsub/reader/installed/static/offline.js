// The page for offline use stands at the address of the page that was asked for. It tries again when the network is
// back, and while it is in view.
const PAUSE = 5000; // milliseconds

async function tryAgain() {
  const reply = !document.hidden && (await fetch(location.href, { method: "HEAD" }).catch(() => null));
  if (reply) {
    location.reload();
  }
}
addEventListener("online", tryAgain);
const LONGEST = 3 * 86400000; // milliseconds for which the service worker shows what was kept
const way = document.getElementById("kept");
self.caches?.match(`${way.querySelector("a").href}?whole=1`, { ignoreVary: true }).then((kept) => {
  way.hidden = !(kept && Date.now() - Date.parse(kept.headers.get("date")) < LONGEST);
});
setInterval(tryAgain, PAUSE);
