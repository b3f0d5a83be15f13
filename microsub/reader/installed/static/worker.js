// The service worker: where the network is gone, an address shows the page that says so. What people read isn't kept.
addEventListener("install", (event) => {
  const kept = caches.open(SHELL.name).then((cache) => cache.addAll(SHELL.files));
  event.waitUntil(kept.then(() => skipWaiting()));
});

/** Delete what earlier versions kept; other programs at this origin have caches too. */
async function tidyUp() {
  const earlier = (await caches.keys()).filter((name) => name.startsWith(SHELL.own) && name !== SHELL.name);
  await Promise.all(earlier.map((name) => caches.delete(name)));
  await clients.claim();
}
addEventListener("activate", (event) => event.waitUntil(tidyUp()));

addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") {
    return;
  }
  if (request.mode === "navigate") {
    event.respondWith(fetch(request).catch(() => caches.match(SHELL.page)));
  } else if (SHELL.files.includes(new URL(request.url).pathname)) {
    event.respondWith(fetch(request).catch(() => caches.match(request)));
  }
});
