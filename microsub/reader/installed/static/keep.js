// Keeps the unread posts of all channels with their whole texts, for reading without a network: one page, which the
// service worker shows (worker.js). It is of the signed-in user alone, and goes when they sign out.
const AGAIN = 600000; // milliseconds after which the page is kept again
const MOST = 2000000; // bytes, decompressed

const home = document.querySelector(".home").pathname.replace(/\/?$/, "/");
const path = `${home}channel/global?whole=1`;
const cacheName = `posts of ${home} ${document.getElementById("channels").dataset.user}`;

const match = () => self.caches?.match(path, { cacheName, ignoreVary: true });

/** A part of the page that is kept, such as a post; null if it isn't there. */
export async function keptPart(selector) {
  const kept = await match();
  return kept ? new DOMParser().parseFromString(await kept.text(), "text/html").querySelector(selector) : null;
}

/** When the page was kept, as a Unix time in milliseconds; NaN if it wasn't. */
export async function keptSince() {
  return Date.parse((await match())?.headers.get("date"));
}

/** Keep the page, unless it was kept lately; what is kept of other users goes. */
export async function keepPosts() {
  if (!self.caches || !navigator.onLine) {
    return;
  }
  const others = (await caches.keys()).filter((one) => one.startsWith(`posts of ${home} `) && one !== cacheName);
  await Promise.all(others.map((one) => caches.delete(one)));
  const kept = await match();
  if (Date.now() - Date.parse(kept?.headers.get("date") ?? 0) < AGAIN) {
    return;
  }
  const reply = await fetch(path).catch(() => null);
  const page = reply?.ok && !reply.redirected ? await reply.blob() : null;
  if (page && page.size <= MOST) {
    await (await caches.open(cacheName)).put(path, new Response(page, { headers: reply.headers }));
  }
}
