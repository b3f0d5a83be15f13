// The display settings: a choice is shown and saved at once; without this script the button saves.
const form = document.querySelector(".display form");
const saved = document.getElementById("saved");
const said = saved.textContent;
let over = 0;
let turn = Promise.resolve(); // one after the other, so that the last choice is the one that stays

async function save() {
  const body = new URLSearchParams(new FormData(form));
  const reply = await fetch(form.action, { method: "POST", body }).catch(() => null);
  saved.textContent = reply?.ok ? said : saved.dataset.failed;
  saved.hidden = false;
  clearTimeout(over);
  if (reply?.ok) over = setTimeout(() => (saved.hidden = true), 4000); // it stands before other choices
}

form.addEventListener("change", ({ target }) => {
  if (target.name === "language") {
    form.submit();
    return;
  }
  if (target.name in document.documentElement.dataset) {
    document.documentElement.dataset[target.name] = target.value;
  }
  saved.hidden = true;
  turn = turn.then(save);
});
