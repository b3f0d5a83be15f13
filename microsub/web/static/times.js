// Shows the page's times, which are in UTC, in the browser's time zone. Days without a time aren't changed.
const FORM = { dateStyle: "medium", timeStyle: "short" };

export function localiseTimes(part) {
  for (const time of part.querySelectorAll("time[datetime*=T]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      const exact = moment.toLocaleString(document.documentElement.lang, FORM);
      time["age" in time.dataset ? "title" : "textContent"] = exact;
    }
  }
}
localiseTimes(document);
