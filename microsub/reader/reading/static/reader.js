// Reading with a script: what works without it goes without reloading, and by keys.
import { atPosts, prepareFeed } from "./feed.js";
import { listen } from "./keys.js";
import { prepareForms } from "./marks.js";
import { watchNews } from "./news.js";

for (const time of document.querySelectorAll("time[datetime]")) {
  localise(time);
}
export function localise(time) {
  const moment = new Date(time.dateTime);
  if (!Number.isNaN(moment.valueOf())) {
    const form = { dateStyle: "medium", timeStyle: "short" };
    time.textContent = moment.toLocaleString(document.documentElement.lang, form);
  }
}

prepareForms();
prepareFeed(localise);
watchNews();
listen(atPosts);
