// The pages of posts, from which a list takes whole texts: the page of the next post is fetched in advance.
import { say } from "./marks.js";

let ahead = { address: "", page: null };

/** The page that is the reply to a request, perhaps one that says what is wrong; null if there is none. */
async function fetched(address, options = {}) {
  try {
    const reply = await fetch(address, options);
    const isPage = reply.headers.get("content-type")?.startsWith("text/html");
    return isPage ? new DOMParser().parseFromString(await reply.text(), "text/html") : null;
  } catch {
    return null;
  }
}

/** The page of a post, perhaps fetched before; null if it can't be had. */
export async function pageOf(address) {
  const known = ahead.address === address ? await ahead.page : null;
  ahead = { address: "", page: null };
  return known || fetched(address);
}

/** Fetch the page of the post that is probably opened next, unless the user wants to save data. */
export function fetchAhead(post) {
  const link = post?.querySelector("[data-open]");
  if (link && ahead.address !== link.href && !navigator.connection?.saveData) {
    ahead = { address: link.href, page: fetched(link.href) };
  }
}

/** Put the contents of a post's page into the list; players stay on the page. False if the page has none. */
export function show(page, body) {
  const whole = page?.querySelector("[data-body]");
  if (whole) {
    whole.querySelectorAll("[data-player]").forEach((player) => player.remove());
    body.replaceChildren(...whole.childNodes);
  }
  return Boolean(whole);
}

/** Show the full text of a post in place, or the text of its feed again; `control` is the link or button for it. */
export async function changeText(control) {
  const post = control.closest(".post");
  if (post.ariaBusy === "true") {
    return;
  }
  const words = control.textContent;
  [post.ariaBusy, control.textContent] = ["true", control.dataset.waits];
  const { form, href } = control;
  const page = await (form ? fetched(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) }) : fetched(href));
  [post.ariaBusy, control.textContent] = ["false", words];
  const problem = page?.querySelector("main [role=alert]");
  if (problem) {
    say(problem.textContent);
  } else if (show(page, post.querySelector("[data-body]"))) {
    post.focus({ preventScroll: true });
  } else {
    location.assign(post.querySelector("[data-open]").href); // that page says why
  }
}
