// Chooses feeds in the table: all shown ones with one box, a range with Shift; the actions show while any is chosen.
"use strict";

const bar = document.querySelector(".choosing");
const boxes = [...document.querySelectorAll(".feeds tbody [name=feed]")];
const link = document.querySelector("[data-all]");
let last = null;

/** The box in the table's head that stands for all, in place of the link that loads the page with all chosen. */
function boxForAll() {
  const all = document.createElement("input");
  all.type = "checkbox";
  all.ariaLabel = link.textContent;
  document.querySelector("th.tick").replaceChildren(all);
  link.hidden = true;
  all.addEventListener("change", () => {
    for (const box of boxes) {
      box.checked = all.checked;
    }
    show(all);
  });
  return all;
}

function show(all) {
  const count = boxes.filter((box) => box.checked).length;
  all.checked = count === boxes.length;
  all.indeterminate = count > 0 && !all.checked;
  bar.hidden = count === 0;
  const said = bar.querySelector("[data-chosen]");
  [said.hidden, said.textContent] = [false, bar.dataset.words.replace("#", count)];
}

function showChannel() {
  const needed = ["move", "copy"].includes(document.getElementById("do").value);
  const [field, label] = [document.getElementById("to"), bar.querySelector("[for=to]")];
  [field.hidden, label.hidden, field.disabled] = [!needed, !needed, !needed];
  field.required = needed;
}

if (bar) {
  const all = boxForAll();
  show(all);
  showChannel();
  document.getElementById("do").addEventListener("change", showChannel);
  document.querySelector(".feeds tbody").addEventListener("click", (event) => {
    const at = boxes.indexOf(event.target);
    if (at < 0) {
      return;
    }
    if (event.shiftKey && last !== null) {
      for (const box of boxes.slice(Math.min(at, last), Math.max(at, last) + 1)) {
        box.checked = event.target.checked;
      }
    }
    last = at;
    show(all);
  });
  addEventListener("pageshow", () => show(all)); // the browser may have restored the boxes
}
