// Reading with a script: the same actions as without it, but without reloading, and with keys.
import { atPosts, prepareFeed } from "./feed.js";
import { listen } from "./keys.js";
import { prepareForms, showTotal } from "./marks.js";
import { prepareBranches, watchNews } from "./news.js";
import { atPost, preparePost } from "./post.js";

// Hide pictures that can't be loaded; a face becomes its letter.
function leaveOut({ target }) {
  if (target.matches?.("img[data-letter]")) {
    const letter = document.createElement("span");
    [letter.className, letter.ariaHidden, letter.textContent] = ["face", "true", target.dataset.letter];
    target.replaceWith(letter);
  } else if (target.matches?.(".post img")) {
    (target.closest(".photos a") || target).hidden = true;
  }
}
addEventListener("error", leaveOut, true);
for (const image of document.querySelectorAll(".post img")) {
  if (image.complete && image.naturalWidth === 0) {
    if (image.loading === "lazy") {
      image.src = image.src; // failed before this script ran, or not asked for yet: its error comes from now on
    } else {
      leaveOut({ target: image });
    }
  }
}

// In a list, the words of actions are for screen readers; a tooltip shows them.
document.addEventListener("pointerover", ({ target }) => {
  const act = target.closest?.(".post:not(.whole) .acts > *");
  if (act) {
    act.title = act.textContent;
  }
});

// A picture is shown whole, unless its publisher has made it a link.
document.addEventListener("click", (event) => {
  const photo = event.target.closest?.(".post .photos a");
  const picture = photo ? photo.querySelector("img") : event.target;
  const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (isPlain && (photo || picture.matches?.(".post .content img:not(a img)"))) {
    event.preventDefault();
    import("./lightbox.js").then(({ enlarge }) => enlarge(picture));
  }
});

prepareForms();
showTotal();
prepareFeed();
preparePost();
if (document.querySelector("[data-player]")) {
  import("./play.js").then(({ preparePlayers }) => preparePlayers());
}
if (document.querySelector("[role=feed]") && navigator.maxTouchPoints) {
  import("./swipes.js").then(({ prepareSwipes }) => prepareSwipes());
}
if (document.querySelector("#listening, form[action$='/listen']")) {
  import("./listening.js").then(({ prepareListening }) => prepareListening());
}
watchNews();
prepareBranches();
listen(document.querySelector(".post.whole") ? { ...atPosts, ...atPost } : atPosts);
const worker = new URL("service-worker.js", document.querySelector("link[rel=manifest]").href);
navigator.serviceWorker?.register(worker);
