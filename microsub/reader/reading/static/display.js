// The display settings: the page shows a choice at once, before it is saved.
document.querySelector(".display form").addEventListener("change", ({ target }) => {
  if (target.name in document.documentElement.dataset) {
    document.documentElement.dataset[target.name] = target.value;
  }
});
