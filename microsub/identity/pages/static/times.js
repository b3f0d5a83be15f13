// Times of a page, which names them in UTC, as the browser's own clock shows them. Days without a time stay as they are.
const FORM = { dateStyle: "medium", timeStyle: "short" };

export function localiseTimes(part) {
  for (const time of part.querySelectorAll("time[datetime*=T]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      time.textContent = moment.toLocaleString(document.documentElement.lang, FORM);
    }
  }
}
localiseTimes(document);
