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
const way = document.getElementById("kept");
self.caches?.match(`${way.querySelector("a").href}?whole=1`, { ignoreVary: true }).then((kept) => {
  way.hidden = !(kept && Date.now() - Date.parse(kept.headers.get("date")) < way.dataset.longest); // as long as the service worker shows it
});
setInterval(tryAgain, PAUSE);
