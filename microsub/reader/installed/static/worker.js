// The service worker: without a network, every address shows the offline page, except those of all unread posts, which
// show the ones that keep.js has kept, for three days. It also shows the server's messages while no page is open.
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

/** Delete what was kept to be read. */
async function forgetPosts() {
  const names = (await caches.keys()).filter((name) => name.startsWith(SHELL.posts));
  await Promise.all(names.map((name) => caches.delete(name)));
}

/** The page for an address without a network. */
async function offline(path) {
  const kept = SHELL.lists.includes(path) && (await caches.match(SHELL.kept, { ignoreVary: true }));
  const isFresh = kept && Date.now() - Date.parse(kept.headers.get("date")) < SHELL.longest;
  return isFresh ? kept : caches.match(SHELL.page);
}

addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") {
    return;
  }
  if (request.mode === "navigate") {
    const { pathname } = new URL(request.url);
    if (SHELL.ended.some((path) => pathname.startsWith(path))) { // the next page may be another user's
      event.waitUntil(forgetPosts());
    }
    event.respondWith(fetch(request).catch(() => offline(pathname)));
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
