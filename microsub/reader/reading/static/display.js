// The display settings: a choice is shown and saved at once; without this script the button saves.
const form = document.querySelector(".display form");
const saved = document.getElementById("saved");
let turn = Promise.resolve(); // one after the other, so that the last choice is the one that stays

async function save() {
  const body = new URLSearchParams(new FormData(form));
  const reply = await fetch(form.action, { method: "POST", body }).catch(() => null);
  saved.hidden = !reply?.ok;
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
