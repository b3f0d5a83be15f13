// Swipes in lists on touch screens: to the right marks a post as read or unread, to the left saves it or takes it back.
import { change, feed, isOn } from "./marks.js";

const FAR = 72; // minimum pixels of a swipe
const SLOP = 12; // pixels before a movement counts as a swipe
const EDGE = 24; // pixels at the edges of the screen, whose swipes belong to the browser
const WIDE = "pre, table, math, audio, video";

function changeOf(post, far) {
  const { id } = post.dataset;
  return far > 0 ? (isOn(id, "read") ? "unread" : "read") : isOn(id, "save") ? "unsave" : "save";
}

export function prepareSwipes() {
  let [post, from, far] = [null, null, 0];

  function release() {
    post?.classList.remove("is-swiped", "is-far", "is-left");
    post?.style.removeProperty("--swipe");
    [post, from, far] = [null, null, 0];
  }

  function move(event) {
    const [x, y] = [event.clientX - from.clientX, event.clientY - from.clientY];
    if (!far && Math.abs(x) < Math.max(SLOP, 2 * Math.abs(y))) {
      return;
    }
    far = Math.sign(x) * Math.min(Math.abs(x), 1.5 * FAR);
    post.dataset.swipe = feed.dataset[changeOf(post, far)];
    post.classList.add("is-swiped");
    post.classList.toggle("is-far", Math.abs(far) >= FAR);
    post.classList.toggle("is-left", far < 0);
    post.style.setProperty("--swipe", `${far}px`);
  }

  feed.addEventListener("pointerdown", (event) => {
    release(); // also when a second finger comes
    const { pointerType, isPrimary, clientX, target } = event;
    const isOurs = feed.matches(".swipes") && clientX > EDGE && clientX < innerWidth - EDGE && !target.closest(WIDE);
    if (pointerType === "touch" && isPrimary && isOurs) {
      [post, from] = [target.closest(".post"), event];
    }
  });
  feed.addEventListener("pointermove", (event) => post && getSelection().isCollapsed && move(event));
  feed.addEventListener("pointerup", () => {
    if (post && Math.abs(far) >= FAR) {
      const name = changeOf(post, far);
      change(name, post.dataset.id, feed.dataset[`${name}Said`]);
    }
    release();
  });
  feed.addEventListener("pointercancel", release); // the browser scrolls
  const zoomed = () => feed.classList.toggle("swipes", visualViewport.scale < 1.05); // else a finger pans the page
  visualViewport.addEventListener("resize", zoomed);
  zoomed();
}
