// Shows the page's times, which are in UTC, in the browser's time zone and as its country writes them. Days without a time aren't
// changed. Gives lists the headings of its days, too.
const FORM = { dateStyle: "medium", timeStyle: "short" };
let [format, dates, words] = []; // made when they are needed: browsers take long for them

function local() {
  const { lang } = document.documentElement;
  return navigator.languages.find((one) => one.startsWith(lang)) || lang;
}

function exact(time) {
  const moment = new Date(time.dateTime);
  format ??= new Intl.DateTimeFormat(local(), FORM);
  return Number.isNaN(moment.valueOf()) ? time.textContent : format.format(moment);
}

export function localiseTimes(part) {
  for (const time of part.querySelectorAll("time[datetime*=T]:not([data-age])")) {
    time.textContent = exact(time);
  }
}
localiseTimes(document);

/** The heading of a day: its date, and before it whether that is today or yesterday. */
function heading(moment) {
  dates ??= new Intl.DateTimeFormat(local(), { dateStyle: "long" });
  words ??= new Intl.RelativeTimeFormat(local(), { numeric: "auto" });
  const date = dates.format(moment);
  const days = Math.round((new Date().setHours(12, 0, 0, 0) - new Date(moment).setHours(12, 0, 0, 0)) / 86400000);
  if (days !== 0 && days !== 1) {
    return date;
  }
  const word = words.format(-days, "day");
  return `${word.charAt(0).toLocaleUpperCase(local())}${word.slice(1)}, ${date}`;
}

/** Give posts in the order of their times the headings of the browser's days, which may begin elsewhere than those in UTC. */
export function groupByDay(posts) {
  let last = "";
  for (const post of posts) {
    const moment = new Date(post.querySelector(":is(.from, .byline) time")?.dateTime);
    const day = Number.isNaN(moment.valueOf()) ? "" : moment.toDateString();
    const shown = post.querySelector(":scope > .group");
    if (!day || day === last) {
      shown?.remove();
    } else {
      const made = shown || Object.assign(document.createElement("p"), { className: "group" });
      made.textContent = heading(moment);
      post.prepend(made);
    }
    last = day || last;
  }
}

// An age stays as it is, and its tooltip says what it stands for.
function explain(time) {
  time.title = exact(time);
  delete time.dataset.age;
}
document.addEventListener("pointerover", ({ target }) => target.matches?.("time[data-age]") && explain(target));
document.addEventListener("focusin", ({ target }) => {
  (target.closest("article") || target).querySelectorAll("time[data-age]").forEach(explain);
});
