// The pictures of a post, one at a time and whole, in a dialog: arrows and swipes turn, Esc closes.
const FAR = 60; // minimum pixels of a horizontal swipe
const dialog = document.getElementById("lightbox");
let [shown, at] = [[], 0];

function show(place) {
  at = (place + shown.length) % shown.length;
  const { src, alt, title } = shown[at];
  const [picture, caption] = [new Image(), document.createElement("figcaption")];
  Object.assign(picture, { src, alt });
  caption.dir = "auto";
  caption.textContent = [...new Set([alt, title])].filter(Boolean).join(" – "); // a tooltip can't be read on touch
  dialog.querySelector("figure").replaceChildren(picture, caption);
}

/** Show a picture of a post; the others follow it. */
export function enlarge(picture) {
  const post = picture.closest(".post");
  shown = [...post.querySelectorAll(".photos img, .content img")].filter((one) => !one.closest("[hidden], .content a:not([data-whole])"));
  show(shown.indexOf(picture));
  dialog.querySelectorAll("[data-turn]").forEach((button) => (button.hidden = shown.length < 2));
  dialog.showModal();
}

dialog.addEventListener("click", ({ target }) => {
  if (target.dataset.turn) {
    show(at + Number(target.dataset.turn));
  } else if (target.matches("dialog, figure")) {
    dialog.close();
  }
});
dialog.addEventListener("keydown", ({ key }) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step) {
    show(at + step);
  }
});
let from = null;
dialog.addEventListener("touchstart", ({ touches }) => (from = touches.length === 1 ? touches[0] : null), { passive: true });
dialog.addEventListener("touchend", ({ changedTouches: [to] }) => {
  const [x, y] = from ? [to.clientX - from.clientX, to.clientY - from.clientY] : [0, 0];
  if (Math.abs(x) > FAR && Math.abs(x) > 2 * Math.abs(y)) {
    show(at - Math.sign(x));
  }
  from = null;
}, { passive: true });
