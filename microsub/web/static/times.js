// Shows the page's times, which are in UTC, in the browser's time zone and as its country writes them. Days without a time aren't changed.
const FORM = { dateStyle: "medium", timeStyle: "short" };
let format = null; // made when it is needed: browsers take long for it

function exact(time) {
  const moment = new Date(time.dateTime);
  const { lang } = document.documentElement;
  format ??= new Intl.DateTimeFormat(navigator.languages.find((one) => one.startsWith(lang)) || lang, FORM);
  return Number.isNaN(moment.valueOf()) ? time.textContent : format.format(moment);
}

export function localiseTimes(part) {
  for (const time of part.querySelectorAll("time[datetime*=T]:not([data-age])")) {
    time.textContent = exact(time);
  }
}
localiseTimes(document);

// An age stays as it is, and its tooltip says what it stands for.
function explain(time) {
  time.title = exact(time);
  delete time.dataset.age;
}
document.addEventListener("pointerover", ({ target }) => target.matches?.("time[data-age]") && explain(target));
document.addEventListener("focusin", ({ target }) => {
  (target.closest("article") || target).querySelectorAll("time[data-age]").forEach(explain);
});
