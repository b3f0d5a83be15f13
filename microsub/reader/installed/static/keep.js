// Keeps the unread posts of all channels with their whole texts, for reading without a network: one page, which the
// service worker shows (worker.js). It is of the signed-in user alone, and goes when they sign out.
const AGAIN = 600000; // milliseconds after which the page is kept again
const MOST = 2000000; // bytes, decompressed

/** Keep the page, unless it was kept lately; what is kept of other users goes. */
export async function keepPosts() {
  if (!self.caches || !navigator.onLine) {
    return;
  }
  const home = document.querySelector(".home").pathname.replace(/\/?$/, "/");
  const name = `posts of ${home} ${document.getElementById("channels").dataset.user}`;
  const others = (await caches.keys()).filter((one) => one.startsWith(`posts of ${home} `) && one !== name);
  await Promise.all(others.map((one) => caches.delete(one)));
  const [cache, path] = [await caches.open(name), `${home}channel/global?whole=1`];
  const kept = await cache.match(path);
  if (Date.now() - Date.parse(kept?.headers.get("date") ?? 0) < AGAIN) {
    return;
  }
  const reply = await fetch(path).catch(() => null);
  const page = reply?.ok && !reply.redirected ? await reply.blob() : null;
  if (page && page.size <= MOST) {
    await cache.put(path, new Response(page, { headers: reply.headers }));
  }
}
