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
self.caches?.keys().then((names) => {
  document.getElementById("kept").hidden = !names.some((name) => name.startsWith(`posts of ${document.querySelector(".home").pathname}`));
});
setInterval(tryAgain, PAUSE);
