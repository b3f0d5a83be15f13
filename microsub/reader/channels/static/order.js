// Changes the order of channels by drag, or with Alt and an arrow key on a channel; sends each change.
"use strict";

const list = document.querySelector("[data-order]");
const form = list && list.closest("form");
let dragged = null;

function send() {
  form.elements.order.value = Array.from(list.children, (item) => item.dataset.uid).join(",");
  form.submit();
}

function place(item, y) {
  for (const other of list.children) {
    const box = other.getBoundingClientRect();
    if (other !== item && y < box.top + box.height / 2) {
      list.insertBefore(item, other);
      return;
    }
  }
  list.append(item);
}

/** Restore the focus from the replaced page: on the channel that was moved. */
function stayWith() {
  const uid = sessionStorage.getItem("moved channel");
  sessionStorage.removeItem("moved channel");
  list.querySelector(`[data-uid="${uid}"] a`)?.focus();
}

if (list) {
  stayWith();
  form.addEventListener("submit", ({ submitter }) => {
    const item = submitter?.closest("[data-uid]");
    if (item) {
      sessionStorage.setItem("moved channel", item.dataset.uid);
    }
  });
  list.addEventListener("pointerdown", (event) => {
    const grip = event.target.closest(".grip");
    if (grip) {
      dragged = grip.parentElement;
      dragged.classList.add("dragged");
      grip.setPointerCapture(event.pointerId);
      event.preventDefault();
    }
  });
  list.addEventListener("pointermove", (event) => {
    if (dragged) {
      place(dragged, event.clientY);
    }
  });
  for (const name of ["pointerup", "pointercancel"]) {
    list.addEventListener(name, () => {
      if (dragged) {
        dragged.classList.remove("dragged");
        dragged = null;
        send();
      }
    });
  }
  list.addEventListener("keydown", (event) => {
    const item = event.target.closest("[data-uid]");
    const step = { ArrowUp: "up", ArrowDown: "down" }[event.key];
    if (item && event.altKey && step) {
      event.preventDefault();
      const button = item.querySelector(`[name=${step}]`);
      if (!button.disabled) {
        form.requestSubmit(button);
      }
    }
  });
}
