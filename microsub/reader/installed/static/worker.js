// The service worker: without a network, every address shows the offline page. Nothing that users read is stored.
// It also shows the server's messages while no page is open.
addEventListener("install", (event) => {
  const kept = caches.open(SHELL.name).then((cache) => cache.addAll(SHELL.files));
  event.addRoutes?.({ condition: { requestMethod: "post" }, source: "network" }); // also requests of a page at its end
  event.waitUntil(kept.then(() => skipWaiting()));
});

/** Delete the caches of earlier versions; other programs at this origin have caches too. */
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

/** Our pages that are open in this browser. */
async function openPages() {
  const all = await clients.matchAll({ type: "window", includeUncontrolled: true });
  return all.filter((page) => new URL(page.url).pathname.startsWith(SHELL.home));
}

/** Show a message, replacing the last one, unless one of our pages is visible. */
async function show({ title, body, path, test }) {
  const pages = await openPages();
  if (test || !pages.some((page) => page.visibilityState === "visible")) {
    const tag = test ? "test" : "new posts";
    await registration.showNotification(title, { body, tag, icon: SHELL.icon, data: path });
  }
}
addEventListener("push", (event) => event.waitUntil(show(event.data.json())));

/** Open a message's target, in one of our open pages if there is one. */
async function open(path) {
  const address = new URL(SHELL.home + path, location.origin).href;
  const [page] = await openPages();
  const moved = await page?.focus().then((focused) => focused.navigate(address)).catch(() => null);
  return moved || clients.openWindow(address);
}
addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});
